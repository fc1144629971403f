"""Which of the package's operations a block calls."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode

from dwmr import ops


class calls(TorchDispatchMode):
    """Accelerated kernels in a block, and the list of those that were called."""

    def __enter__(self) -> list[str]:
        self.used: list[str] = []
        self.block = ops.accelerated()
        self.block.__enter__()
        super().__enter__()
        return self.used

    def __exit__(self, *error) -> None:
        super().__exit__(*error)
        self.block.__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "dwmr":
            self.used.append(str(func))
        return func(*args, **(kwargs or {}))
