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
from dwmr.files import check_output
from dwmr.models.world_model import resolve_device
from dwmr.presets import preset


@app.command(
    epilog=example(
        "dwmr tune iceslider/dwmr --trials 64 --storage studies/ice.journal",
        "dwmr tune 8puzzle/dwmr --storage p.journal --budget 600",
        "dwmr tune generic/dwmr --data mine/ --storage mine.journal --set bits=32 --set epochs=10",
    )
)
def tune(
    name: Annotated[str, typer.Argument(metavar="PRESET", help="world/model; `dwmr presets` lists them.")],
    storage: Annotated[Path, typer.Option(help="Journal file of the study; an existing study is continued.")],
    trials: Annotated[int, typer.Option(help="Number of configurations to try.", min=1)] = 64,
    data: Annotated[Path | None, typer.Option(help="Data folder; by default the data of the preset's world.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value: fix an option, so that it is not searched; can be repeated."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Stop cleanly after this many seconds; rerun to continue.")
    ] = None,
    at_once: Annotated[int, typer.Option(help="Trials per batch; on a GPU they are trained together.", min=1)] = 16,
    scratch: Annotated[
        Path | None, typer.Option(help="Folder for unfinished runs; by default beside the journal.")
    ] = None,
    select: Annotated[
        str, typer.Option(help="Score to maximise: imagination (F1, needs labels) or shared (needs no labels).")
    ] = "imagination",
    write_preset: Annotated[
        bool, typer.Option("--write-preset", help="Store the result as the package's preset of this name.")
    ] = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Search the hyperparameters of a preset.

    Random trials come first, then trials chosen by their scores. The best are trained longer, and the winners are
    confirmed with new seeds. A study that was stopped continues with the same command.
    """
    from dwmr import tuning

    fixed = parse_settings(settings or [])
    tuning.prepare(name, fixed, storage, trials=trials, at_once=at_once, budget=budget)
    known = storage.exists()  # a study that goes on brings its own summary up to date
    check_output(storage, overwrite=known, inputs=[data], written=True)
    summary, *pictures = tuning.summary_files(storage)
    check_output(summary, overwrite=overwrite or known, inputs=[data])
    for path in pictures:
        check_output(path, overwrite=overwrite or known, inputs=[data], written=known or None)
    if write_preset:
        check_output(tuning.preset_file(name), overwrite=overwrite)
    resolve_device(device)
    splits = load_data(data, preset(name).benchmark)
    found = tuning.tune(
        name,
        splits,
        storage,
        trials=trials,
        seed=seed,
        settings=fixed,
        select=select,
        device=device,
        at_once=at_once,
        budget=budget,
        scratch=scratch,
    )
    written = tuning.save(found, storage)
    if write_preset and found["finished"]:
        written.append(tuning.write_preset(found))
    if as_json:
        print_json(found)
        return
    say(tables.tuning_line(found))
    for table in tables.tuning(found):
        out.print(table)
    say(f"written: {', '.join(map(str, written))}")


@app.command(
    epilog=example(
        "dwmr reproduce table1 --plan",
        "dwmr reproduce table1 --only dwmr,8puzzle --runs 3",
        "dwmr reproduce table2 --budget 540",
        "dwmr reproduce strong --plan --runs 5",
        "dwmr reproduce results",
    )
)
def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="table1, table2, table3 or strong; or results: write all of them.")
    ],
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
        bool, typer.Option("--again", help="Make stale runs again: those of other values or older code.")
    ] = False,
    models: Annotated[Path | None, typer.Option(help="Keep the trained models in this folder.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first run.", min=0)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Reproduce a table of the paper, or the one beyond it (strong). Needs a clone of the repository.

    Stored runs are not repeated, so a stopped command continues when it is run again. `results` makes no runs: it
    writes every table from the stored ones.
    """
    command = _from_clone("experiments.reproduce.command")
    if name == "results":
        if only or plan or again:
            raise InputError("results makes no runs, so --only, --plan and --again have no effect; leave them out")
        command.write_results(results)
        return
    options = command.Options(device, budget, again, models)
    make = command.show_plan if plan else command.make_table
    make(name, only or [], results, range(seed, seed + runs), options, as_json)


def _from_clone(module: str) -> Any:
    """A module of the folder ``experiments``, which is beside the package's ``src`` or in the working directory."""
    for root in (Path(dwmr.__file__).parents[2], Path.cwd()):
        if root.joinpath(*module.split(".")).with_suffix(".py").is_file():
            sys.path.insert(0, str(root))
            return importlib.import_module(module)
    raise InputError("dwmr reproduce needs a clone of the repository: run it there, with the folder experiments")
