"""Looking at data and at models: a preview of transitions, and one self-contained page for a run."""

from dwmr.plotting.pictures import require_matplotlib, save_preview
from dwmr.report.page import write_report

__all__ = ["require_matplotlib", "save_preview", "write_report"]
