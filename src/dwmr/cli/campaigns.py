"""Long work in many runs: tuning, and the paper's tables."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import dwmr
from dwmr.cli import tables
from dwmr.cli.common import (
    MOST_SEEDS,
    AsJson,
    Device,
    Overwrite,
    Seed,
    app,
    example,
    load_data,
    out,
    parse_settings,
    print_json,
    say,
)
from dwmr.errors import InputError
from dwmr.files import atomic_write_json, check_output
from dwmr.models.world_model import resolve_device
from dwmr.presets import preset


@app.command(
    epilog=example(
        "dwmr tune iceslider/dwmr --trials 64 --storage studies/ice.journal",
        "dwmr tune 8puzzle/dwmr --storage sqlite:///puzzle.db",
        "dwmr tune generic/dwmr --data mine/ --storage mine.journal --set bits=32 --set epochs=10",
    )
)
def tune(
    name: Annotated[str, typer.Argument(metavar="PRESET", help="world/model; `dwmr presets` lists them.")],
    storage: Annotated[
        str,
        typer.Option(metavar="FILE_OR_URL", help="Journal file or Optuna database; an existing study is continued."),
    ],
    trials: Annotated[int, typer.Option(help="Number of configurations to try.", min=1)] = 64,
    data: Annotated[Path | None, typer.Option(help="Data folder; by default the data of the preset's world.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value: fix an option, so that it is not searched; can be repeated."),
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Search the hyperparameters of a preset.

    Random trials come first, then trials chosen by their scores. The best are trained longer, and the winners are
    confirmed with new seeds. A study that was interrupted continues with the same command. The result is written beside
    the journal as JSON, which `dwmr train PRESET --config FILE.json` takes.
    """
    from dwmr import tuning

    fixed = parse_settings(settings or [])
    tuning.prepare(name, storage, trials, fixed)
    place = tuning.place_of(storage)
    known, summary = place.exists() or "://" in storage, place.with_suffix(".json")
    check_output(place, overwrite=known, inputs=[data], written=True)
    check_output(summary, overwrite=overwrite or known, inputs=[data])
    resolve_device(device)
    splits = load_data(data, preset(name).benchmark)
    found = tuning.tune(name, splits, storage, trials=trials, seed=seed, settings=fixed, device=device)
    atomic_write_json(summary, found)
    if as_json:
        print_json(found)
        return
    say(tables.tuning_line(found))
    for table in tables.tuning(found):
        out.print(table)
    say(f"wrote {summary}")


@app.command(
    epilog=example(
        "dwmr reproduce table1 --plan",
        "dwmr reproduce table1 --only dwmr,8puzzle --runs 3",
        "dwmr reproduce table2 --budget 540",
    )
)
def reproduce(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="table1, table2, table3 or strong.")],
    only: Annotated[list[str] | None, typer.Option(help="ROW,COLUMN, a row or a column; can be repeated.")] = None,
    runs: Annotated[int, typer.Option(help="Runs per cell.", min=1, max=MOST_SEEDS)] = 10,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would run and how long it takes.")] = False,
    results: Annotated[
        Path | None, typer.Option("--out", help="Folder of runs and tables; by default experiments/results.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Stop cleanly after this many seconds; rerun to continue.", min=1)
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Repeat runs that were made with other option values or older code.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the first run.", min=0)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Reproduce a table of the paper, or `strong`, the table of the strong presets. Needs a clone of the repository.

    Stored runs are not repeated, so a stopped command continues when it is run again.
    """
    command = _from_clone("experiments.reproduce.command")
    options = command.Options(device, budget, again)
    make = command.show_plan if plan else command.make_table
    make(name, only or [], results, range(seed, seed + runs), options, as_json)


def _from_clone(module: str) -> Any:
    """A module of the folder ``experiments``, which is beside the package's ``src`` or in the working directory."""
    for root in (Path(dwmr.__file__).parents[2], Path.cwd()):
        if root.joinpath(*module.split(".")).with_suffix(".py").is_file():
            sys.path.insert(0, str(root))
            return importlib.import_module(module)
    raise InputError("dwmr reproduce needs a clone of the repository: run it there, with the folder experiments")
