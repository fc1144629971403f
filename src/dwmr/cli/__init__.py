"""The command line: thin functions over the library. Wrong input prints one line and exits with status 2."""

import logging
import sys
import warnings
from typing import Annotated, Any

import typer

import dwmr
from dwmr.cli import campaigns, collecting, evaluating, exporting, learning, plans
from dwmr.cli.common import app, flag, note, say
from dwmr.errors import ExportFailed, InputError, TrainingDiverged

MODULES = [collecting, learning, evaluating, plans, exporting, campaigns]  # in the order in which users need them


def _place(command: Any) -> int:
    return MODULES.index(sys.modules[command.callback.__module__])


app.registered_commands.sort(key=_place)  # for --help


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, flag("--version", "Print the version.")] = False) -> None:
    if version:
        say(f"dwmr {dwmr.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. Expected errors print one line on standard error and exit with status 2."""
    warnings.showwarning = lambda message, *details, **more: note(f"warning: {message}")
    log = logging.getLogger("dwmr")
    log.setLevel(logging.INFO)
    if not any(isinstance(handler, _ToStandardError) for handler in log.handlers):
        log.addHandler(_ToStandardError())
    usage_error: Any = typer.BadParameter.__base__
    try:
        status = app(standalone_mode=False)
    except usage_error as error:
        if not error.format_message():  # no command given: the help has been printed
            sys.exit(0)
        _fail(error.format_message())
    except (InputError, TrainingDiverged, ExportFailed) as error:
        _fail(str(error))
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
        _fail(named or str(error))
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _fail(message: str) -> None:
    note(f"error: {' '.join(message.split())}")
    sys.exit(2)
