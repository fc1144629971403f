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
TRIALS_HELP = "Number of configurations to try in total, those of interrupted calls included."
DATA_HELP = (
    common.DATA_HELP.format("Data folder with the splits train and val, not an .npz file", "preset")
    + " Required for the generic/ presets."
)
REPLACE_HELP = "Replace a JSON file written by a different search. The search in --storage is never deleted."
TABLE_HELP = (
    "Of the paper: table1 (comparison of its six models), table2 (training schemes), table3 (ablations). Our own: "
    "strong (the strong presets, and what each of their parts adds), worlds (auto and generic/ presets, on all worlds "
    "of dwmr collect)."
)
ONLY_HELP = "Limit to a row such as dwmr, a column such as 8puzzle, or a cell such as dwmr,8puzzle. Can be repeated."
RUNS_HELP = "Number of runs per cell of the table, each with a different seed."
PLAN_HELP = "Train nothing: show which runs are missing, and how long they would take."
RESULTS_HELP = "Folder of stored runs and tables. Default: experiments/results."
BUDGET_HELP = (
    "Time limit in seconds, from the start of the command: runs expected to exceed it are not started. Default: none."
)
AGAIN_HELP = (
    "Repeat stored runs that were made with another version of this package, or with settings that the preset no "
    "longer has. By default, runs of another version are kept, and runs with other settings cause an error."
)


@command(
    "dwmr tune iceslider/dwmr --trials 64 --storage studies/ice.journal",
    "dwmr tune 8puzzle/dwmr --storage sqlite:///puzzle.db",
    "dwmr tune generic/dwmr --data mine/ --storage mine.journal --set bits=32 --set epochs=10",
)
def tune(
    name: Annotated[
        str, typer.Argument(metavar="PRESET", help="Preset to start from, such as generic/dwmr; not auto.")
    ],
    storage: Annotated[str, typer.Option(metavar="FILE_OR_URL", help=STORAGE_HELP)],
    trials: Annotated[int, typer.Option(help=TRIALS_HELP, min=1)] = 64,
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    settings: common.Settings = None,
    overwrite: Annotated[bool, flag("--overwrite", REPLACE_HELP)] = False,
    seed: Annotated[int, common.seed_of("which configurations are tried, and the seeds of their runs")] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Search the hyperparameters of a preset.

    It tunes the learning rate, the weights of the loss terms and other options of training, and how they change over
    the epochs (docs/howto/tune.md lists them). Options given by --set stay fixed. The first configurations are random,
    later ones are chosen by the scores so far. The best are trained longer, and the very best are trained again with
    new seeds.

    The score is measured on the split val; higher is better. With labels, it is the F1 of the board one step ahead
    (imagination in dwmr evaluate). Without labels, it is the sum of the squared canonical correlations between
    predicted and encoded codes, which says how much information they share (0 to the number of bits).

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
    seed: Annotated[
        int, typer.Option(help="Random seed of the first run of a cell; the next runs count up from it.", min=0)
    ] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Reproduce a table of the paper, or one of our own. Needs a clone of the repository.

    Stored runs are not repeated, so an interrupted command continues when it is started again. The repository comes
    with runs of ours; use --out NEW_FOLDER to train all of them yourself.
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
