"""A symbolic model: rules that say what a learned predictor does, to read and to plan with."""

from dwmr.symbolic.cells import Layout, layout_of
from dwmr.symbolic.export import SymbolicModel, export_pddl, learn_symbols
from dwmr.symbolic.rules import BitRules, CellRules

__all__ = ["BitRules", "CellRules", "Layout", "SymbolicModel", "export_pddl", "layout_of", "learn_symbols"]
