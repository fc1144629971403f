"""Accelerated operations: per file the reference, the CUDA and the CPU implementation behind one name."""

from dwmr.ops.dispatch import accelerated
from dwmr.ops.sequential import Sequential

__all__ = ["Sequential", "accelerated"]
