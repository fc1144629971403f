"""Looking at data and at models: a preview of transitions, and one self-contained page for a run."""

from dwmr.report.page import write_report
from dwmr.report.pictures import require_matplotlib, save_preview

__all__ = ["require_matplotlib", "save_preview", "write_report"]
