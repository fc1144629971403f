"""The command line: thin functions over the library. Wrong input prints one line and exits with status 2."""

import inspect
import logging
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo

import dwmr
from dwmr.cli import campaigns, collecting, evaluating, exporting, learning, plans  # noqa: F401 - register their commands
from dwmr.cli.common import app, err, say
from dwmr.errors import ExportFailed, InputError, TrainingDiverged

COMMANDS = ["collect", "inspect", "presets", "train", "evaluate", "certify", "explore", "train-heuristic"]
COMMANDS += ["plan", "plan-level", "plan-tasks", "export", "tune", "reproduce"]


def _order(command: CommandInfo) -> int:
    """--help lists the commands in the order in which users need them."""
    name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
    return COMMANDS.index(name) if name in COMMANDS else len(COMMANDS)


app.registered_commands.sort(key=_order)


class _PlainHelp:
    """Shows required arguments as RUN instead of {RUN}, and no type for flags."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece[1:-1] if piece.startswith("{") else piece for piece in pieces]

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Command(_PlainHelp, TyperCommand):
    pass


class _Group(_PlainHelp, TyperGroup):
    pass


app.info.cls = _Group
for _command in app.registered_commands:
    _command.cls = _Command
    # paragraphs of help texts fill the width of the terminal
    _paragraphs = (inspect.getdoc(_command.callback) or "").split("\n\n")
    _command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in _paragraphs)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        say(f"dwmr {dwmr.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. Expected errors print one line on standard error and exit with status 2."""
    warnings.showwarning = _show_warning
    _show_log()
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
        err.print("interrupted")
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        err.print(record.getMessage(), markup=False, soft_wrap=True)


def _show_log() -> None:
    log = logging.getLogger("dwmr")
    log.setLevel(logging.INFO)
    if not any(isinstance(handler, _ToStandardError) for handler in log.handlers):
        log.addHandler(_ToStandardError())


def _fail(message: str) -> None:
    err.print(f"error: {' '.join(message.split())}", markup=False, soft_wrap=True)
    sys.exit(2)


def _show_warning(message: Warning | str, *details: Any, **more: Any) -> None:
    err.print(f"warning: {message}", markup=False, soft_wrap=True)
