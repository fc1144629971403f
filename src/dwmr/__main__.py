"""`python -m dwmr`, and the command `dwmr`."""

from __future__ import annotations

import os


def main() -> None:
    # Threads that spin while they wait for each other starve whoever shares the cores; it must be said before torch
    # is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from dwmr.cli import main as run

    run()


if __name__ == "__main__":
    main()
