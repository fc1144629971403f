"""`python -m dwmr`: the command line, also where the package is not installed."""

from dwmr.cli import main

if __name__ == "__main__":
    main()
