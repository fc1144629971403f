"""What the commands share: the app, common options, printing, and finding the data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dwmr.config import parse_option
from dwmr.data.collect import cached_world
from dwmr.data.transitions import Splits, Transitions, load_splits
from dwmr.errors import InputError, unknown
from dwmr.models.checkpoint import RUN, RunInfo, read_info
from dwmr.models.world_model import WorldModel
from dwmr.worlds.registry import WORLDS

app = typer.Typer(
    help="Learn Boolean world models from images and discrete actions.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
MOST_SEEDS = 1000
out = Console()
err = Console(stderr=True, highlight=False)

Seed = Annotated[int, typer.Option(help="Everything random follows from it.", min=0)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace outputs that dwmr wrote before.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def example(*lines: str) -> str:
    """The epilogue of a command's help."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  $ {line}" for line in lines)])


def say(line: str) -> None:
    out.print(line, highlight=False, markup=False, soft_wrap=True)


def parse_settings(settings: list[str]) -> dict[str, Any]:
    values = dict(parse_option(setting) for setting in settings)
    fixed = {"benchmark", "model"} & set(values)
    if fixed:
        raise InputError(f"{' and '.join(sorted(fixed))} come with the preset's name, not with --set")
    return values


def load_data(data: Path | None, benchmark: str) -> Splits:
    """The data at a path, or that of a world, collected once into the cache."""
    if data is not None:
        return load_splits(data)
    if benchmark not in WORLDS:
        raise InputError(f"{benchmark!r} has no data of its own; name yours with --data")
    return load_splits(cached_world(benchmark))


SPLITS = ("train", "val", "test")


def check_split(name: str) -> None:
    if name not in SPLITS:
        raise unknown("split", name, SPLITS)


def open_run(run: Path, data: Path | None, split: str, device: str) -> tuple[RunInfo, WorldModel, Splits, Transitions]:
    """What a run folder says of itself, its model, the data, and the split of it to be judged on."""
    info, model = open_model(run, device)
    splits = load_data(data, info.config.benchmark)
    parts = parts_of(splits)
    judged = parts.get(split)
    if not isinstance(judged, Transitions):
        raise InputError(f"the data has no split {split!r}; it has {', '.join(parts)}")
    return info, model, splits, judged


def open_model(run: Path, device: str) -> tuple[RunInfo, WorldModel]:
    """What a run folder says of itself, and its model."""
    if not (run / RUN).exists() and list(run.glob(f"seed-*/{RUN}")):
        raise InputError(f"{run} holds several runs; name one, such as {sorted(run.glob('seed-*'))[0]}")
    return read_info(run), WorldModel.load(run, device=device)


def parts_of(splits: Splits) -> dict[str, Any]:
    named = {"train": splits.train, "val": splits.val, "test": splits.test, "rollout": splits.rollout}
    return {name: part for name, part in named.items() if part is not None}


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
