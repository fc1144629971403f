"""What the commands share: the app, common options, printing, and opening runs and data."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from dwmr.config import parse_option
from dwmr.data.collect import cached_world
from dwmr.data.transitions import Splits, Transitions, load_splits
from dwmr.errors import InputError, unknown
from dwmr.models.run_folder import RUN, RunInfo, read_info
from dwmr.models.world_model import WorldModel
from dwmr.worlds.registry import WORLDS
from dwmr.worlds.world import World

ABOUT = (
    "Learn Boolean world models from images and discrete actions. An encoder turns an image into bits, its code; a "
    "predictor turns a code and an action into the next code."
)
RENDERING = "how images are rendered (handwriting, noise)"  # decided by --seed
FIXED_LEVELS = "except in worlds with fixed levels such as iceslider"
MOST_SEEDS = 1000
SPLITS = ("train", "val", "test")
Command = TypeVar("Command", bound=Callable[..., Any])
out = Console()
err = Console(stderr=True, highlight=False)


class WithoutFlagTypes(TyperCommand):
    """A command whose help shows no type of value beside flags, which take none; not even beside ``--help``."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class GroupWithoutFlagTypes(TyperGroup):
    """The same for the app."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(params: list[Any]) -> list[Any]:
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return params


app = typer.Typer(
    cls=GroupWithoutFlagTypes,
    help=ABOUT,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def flag(name: str, explanation: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=explanation)


def _known_split(name: str) -> str:
    if name not in SPLITS:
        raise unknown("split", name, SPLITS)
    return name


def seed_of(decided: str) -> Any:
    """The option ``--seed``, with what it decides."""
    return typer.Option(help=f"Random seed. It decides {decided}.", min=0)


Device = Annotated[str, typer.Option(help="auto (a GPU if there is one, else the CPU), cpu, cuda or cuda:N.")]
OVERWRITE_HELP = "Replace existing output files. Files that dwmr did not write are never replaced."
Overwrite = Annotated[bool, flag("--overwrite", OVERWRITE_HELP)]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, written by dwmr train.")]
DATA_HELP = "{}. Default: the standard data of the {}'s world, collected into the cache (~/.cache/dwmr) if missing."
FILES_HELP = "Data folder or .npz file"
RUN_DATA_HELP = DATA_HELP.format(FILES_HELP, "run")
NO_WORLD_HELP = " Required if the run was trained on other data than that of a built-in world."
RunData = Annotated[Path | None, typer.Option(help=RUN_DATA_HELP + NO_WORLD_HELP)]
SETTINGS_HELP = "Set an option of the preset; `dwmr presets` lists them. Can be repeated."
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)]
SPLIT_HELP = (
    "Split of the data to measure on: train, val or test. An .npz file has only train, so it needs --split train. "
    "Roll-outs are always measured on the split rollout, if there is one."
)
Split = Annotated[str, typer.Option(help=SPLIT_HELP, callback=_known_split)]
TASK_HELP = "Number of the task: 0 to 99, or 0 to 199 for the 8-puzzle."
Horizon = Annotated[int, typer.Option(help="Length of the longest roll-out, in steps.", min=1)]
AsJson = Annotated[bool, flag("--json", "Print the results as one JSON object.")]


def command(*examples: str, name: str | None = None) -> Callable[[Command], Command]:
    """Register a command, with examples of its use at the end of its --help."""
    shown = "\n\n".join(["**Examples**", *(f"  $ {line}" for line in examples)])
    return app.command(name, cls=WithoutFlagTypes, epilog=shown)


def say(line: str) -> None:
    out.print(line, highlight=False, markup=False, soft_wrap=True)


def note(line: str) -> None:
    """Print a line on standard error."""
    err.print(line, markup=False, soft_wrap=True)


def parse_settings(settings: list[str] | None) -> dict[str, Any]:
    values = dict(parse_option(setting) for setting in settings or [])
    fixed = {"benchmark", "model"} & set(values)
    if fixed:
        raise InputError(f"--set cannot change {' or '.join(sorted(fixed))}, which belong to the preset's name")
    return values


def load_data(data: Path | None, benchmark: str) -> Splits:
    """The data at a path, or that of a world, collected once into the cache."""
    if data is not None:
        return load_splits(data)
    if benchmark not in WORLDS:
        raise InputError(f"{benchmark!r} has no data of its own; pass yours with --data PATH")
    splits = load_splits(cached_world(benchmark))
    sizes = ", ".join(f"{name} {len(part):,}" for name, part in parts_of(splits).items())
    note(f"no --data: using the full data of {benchmark} ({sizes})")
    return splits


def open_run(run: Path, data: Path | None, split: str, device: str) -> tuple[RunInfo, WorldModel, Splits, Transitions]:
    """A run's description, its model, the data, and the split of it to evaluate on."""
    info, model = open_model(run, device)
    splits = load_data(data, info.benchmark)
    parts = parts_of(splits)
    chosen = parts.get(split)
    if not isinstance(chosen, Transitions):
        present = ", ".join(name for name in SPLITS if name in parts)
        raise InputError(f"the data has no split {split!r}; choose one with --split: {present}")
    return info, model, splits, chosen


def open_model(run: Path, device: str) -> tuple[RunInfo, WorldModel]:
    """A run's description and its model."""
    if not (run / RUN).exists() and list(run.glob(f"seed-*/{RUN}")):
        raise InputError(f"{run} holds several runs; choose one, such as {sorted(run.glob('seed-*'))[0]}")
    info = read_info(run)
    roles = ("encoder", "predictor", "decoder") if info.decoder else ("encoder", "predictor")
    if own := [role for role in roles if getattr(info.config, role) == "custom"]:
        named = ", ".join(f"{role}=…" for role in own)
        raise InputError(
            f"{run} has a custom {' and '.join(own)}, which the command line cannot load; "
            f'use Python: dwmr.WorldModel.load("{run}", {named})'
        )
    return info, WorldModel.load(run, device=device)


def world_of(run: Path, info: RunInfo) -> World:
    """The built-in world that a run was trained on."""
    if info.benchmark not in WORLDS:
        raise InputError(
            f"{run} was not trained on a built-in world, so it has no levels; "
            f"plan between two images with: dwmr plan {run} --start START --goal GOAL"
        )
    return WORLDS[info.benchmark]


def task_number(world: World, index: int) -> int:
    """The number in its world of the task at this index of the list of tasks."""
    numbers = world.task_numbers
    if index >= len(numbers):
        raise InputError(f"--task must be between 0 and {len(numbers) - 1}, the tasks of {world.name}, got {index}")
    return numbers[index]


def parts_of(splits: Splits) -> dict[str, Any]:
    """The parts that the data has, by name."""
    return {name: part for name, part in vars(splits).items() if part is not None}


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for NaN and infinities, which JSON does not have."""
    sys.stdout.write(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
