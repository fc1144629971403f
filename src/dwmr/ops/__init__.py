"""Accelerated operations: CUDA and CPU kernels in place of layers and functions of PyTorch, which are the reference."""

from dwmr.ops.dispatch import accelerated
from dwmr.ops.sequential import Sequential

__all__ = ["Sequential", "accelerated"]
