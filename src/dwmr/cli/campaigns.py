"""Long work in many runs: tuning, and the paper's tables."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import dwmr
from dwmr.cli import common, tables
from dwmr.cli.common import command, flag
from dwmr.errors import InputError
from dwmr.files import atomic_write_json, check_output
from dwmr.models.world_model import resolve_device
from dwmr.presets import preset

STORAGE_HELP = "Where to store the search: a file such as runs/study.journal, or the URL of a database for Optuna."
REPLACE_HELP = "Let a new search replace the JSON file of another one. The search in --storage is never deleted."
TABLE_HELP = (
    "table1: comparison of the paper's six models; table2: training schemes; table3: ablations; strong: our strong "
    "presets (see dwmr presets)."
)
ONLY_HELP = "Limit to a row such as dwmr, a column such as 8puzzle, or a cell such as dwmr,8puzzle. Can be repeated."
RUNS_HELP = "Number of runs per cell of the table, each with another seed."
PLAN_HELP = "Dry run: show which runs are missing, and how long they would take."
RESULTS_HELP = "Folder of stored runs and tables. Default: experiments/results."
BUDGET_HELP = "Start no run that is expected to end after this many seconds. Default: no limit."
AGAIN_HELP = (
    "Repeat stored runs whose preset options or code differ from the current ones. Without it, runs of other code are "
    "kept, and runs with other options are refused."
)


@command(
    "dwmr tune iceslider/dwmr --trials 64 --storage studies/ice.journal",
    "dwmr tune 8puzzle/dwmr --storage sqlite:///puzzle.db",
    "dwmr tune generic/dwmr --data mine/ --storage mine.journal --set bits=32 --set epochs=10",
)
def tune(
    name: Annotated[str, typer.Argument(metavar="PRESET", help="Preset to start from, such as generic/dwmr.")],
    storage: Annotated[str, typer.Option(metavar="FILE_OR_URL", help=STORAGE_HELP)],
    trials: Annotated[int, typer.Option(help="Number of configurations to try.", min=1)] = 64,
    data: common.PresetData = None,
    settings: common.Settings = None,
    overwrite: Annotated[bool, flag("--overwrite", REPLACE_HELP)] = False,
    seed: common.Seed = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Search the hyperparameters of a preset.

    The first configurations are random, later ones are chosen by the scores so far. The best are trained longer, and
    the very best are trained again with new seeds. The score is measured on validation data: with labels, it is the F1
    of the board one step ahead (imagination in dwmr evaluate); without labels, it is the sum of the squared canonical
    correlations between predicted and encoded codes. This sum measures how much information they share; higher is
    better, at most the number of bits. Options given by --set are not searched.

    The search is stored in --storage; after an interruption, the same command continues it. The best configuration is
    written to a JSON file named after --storage: for example, --storage runs/study.journal gives runs/study.json, and
    --storage sqlite:///puzzle.db gives sqlite-puzzle-db.json in the working directory. Train with it: dwmr train PRESET
    --config runs/study.json.
    """
    from dwmr import tuning

    fixed = common.parse_settings(settings)
    tuning.prepare(name, storage, trials, fixed)
    place = tuning.place_of(storage)
    known, summary = place.exists() or "://" in storage, place.with_suffix(".json")
    check_output(place, overwrite=known, inputs=[data], written=True)
    check_output(summary, overwrite=overwrite or known, inputs=[data])
    resolve_device(device)
    splits = common.load_data(data, preset(name).benchmark)
    found = tuning.tune(name, splits, storage, trials=trials, seed=seed, settings=fixed, device=device)
    atomic_write_json(summary, found)
    if as_json:
        common.print_json(found)
        return
    common.say(tables.tuning(found))
    common.say(f"wrote {summary}")


@command(
    "dwmr reproduce table1 --plan",
    "dwmr reproduce table1 --only dwmr,8puzzle --runs 3",
    "dwmr reproduce table2 --budget 540",
)
def reproduce(
    name: Annotated[str, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
    only: Annotated[list[str] | None, typer.Option(metavar="ROW|COLUMN|ROW,COLUMN", help=ONLY_HELP)] = None,
    runs: Annotated[int, typer.Option(help=RUNS_HELP, min=1, max=common.MOST_SEEDS)] = 10,
    plan: Annotated[bool, flag("--plan", PLAN_HELP)] = False,
    results: Annotated[Path | None, typer.Option("--out", help=RESULTS_HELP)] = None,
    budget: Annotated[float | None, typer.Option(help=BUDGET_HELP, min=1)] = None,
    again: Annotated[bool, flag("--again", AGAIN_HELP)] = False,
    seed: Annotated[int, typer.Option(help="Seed of the first run; the others count up from it.", min=0)] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Reproduce a table of the paper, or the table of our strong presets. Needs a clone of the repository.

    Stored runs are not repeated, so an interrupted command continues when it is started again. The repository comes
    with our runs of these tables; use --out NEW_FOLDER to train them yourself.
    """
    made = _from_clone("experiments.reproduce.command")
    options = made.Options(device, budget, again)
    make = made.show_plan if plan else made.make_table
    make(name, only or [], results, range(seed, seed + runs), options, as_json)


def _from_clone(module: str) -> Any:
    """A module of the folder ``experiments``, which is beside the package's ``src`` or in the working directory."""
    for root in (Path(dwmr.__file__).parents[2], Path.cwd()):
        if root.joinpath(*module.split(".")).with_suffix(".py").is_file():
            sys.path.insert(0, str(root))
            return importlib.import_module(module)
    raise InputError("dwmr reproduce needs a clone of the repository: run it there, with the folder experiments")
