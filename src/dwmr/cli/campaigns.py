"""Long work in many runs: tuning, and the paper's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dwmr.cli import tables
from dwmr.cli.common import (
    MOST_SEEDS,
    AsJson,
    Device,
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
from dwmr.models.world_model import resolve_device
from dwmr.presets import preset
from dwmr.reproduce import campaign, claims, render
from dwmr.reproduce.catalog import find_table, table_names
from dwmr.reproduce.page import write_page, write_table
from dwmr.reproduce.runs import machine_words


@app.command(
    epilog=example(
        "dwmr tune iceslider/dwmr --trials 64 --storage studies/ice.journal",
        "dwmr tune 8puzzle/dwmr --storage p.journal --budget 600",
        "dwmr tune generic/dwmr --data mine/ --storage mine.journal --set bits=32 --set epochs=10",
    )
)
def tune(
    name: Annotated[str, typer.Argument(metavar="PRESET", help="benchmark/model; `dwmr presets` lists them.")],
    storage: Annotated[Path, typer.Option(help="Journal file of the study; if it is there, the study goes on.")],
    trials: Annotated[int, typer.Option(help="Configurations to try.", min=1)] = 64,
    data: Annotated[Path | None, typer.Option(help="Data folder; by default the preset's benchmark.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="name=value: fixed, and so not searched; as often as wanted.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="End in order before so many seconds, to go on later.")] = None,
    at_once: Annotated[int, typer.Option(help="Trials asked for, and on a GPU trained, at once.", min=1)] = 16,
    scratch: Annotated[Path | None, typer.Option(help="Where runs in training are kept; beside the journal.")] = None,
    select: Annotated[
        str, typer.Option(help="imagination: the paper's F1, needs labels; shared: what any data can be chosen by.")
    ] = "imagination",
    write_preset: Annotated[
        bool, typer.Option("--write-preset", help="Make what was chosen the package's preset of that name.")
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Search hyperparameters: random, then learning from the scores; the best are trained longer, and again."""
    from dwmr import tuning

    fixed = parse_settings(settings or [])
    tuning.prepare(name, fixed, storage, trials=trials, at_once=at_once, budget=budget)
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
        "dwmr reproduce table2 --jobs 4 --budget 540",
        "dwmr reproduce strong --plan --runs 5",
        "dwmr reproduce results",
    )
)
def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="table1, table2, table3 or strong; or results: write all again.")
    ],
    only: Annotated[list[str] | None, typer.Option(help="ROW,COLUMN, a row or a column; as often as wanted.")] = None,
    runs: Annotated[int, typer.Option(help="Runs a cell.", min=1, max=MOST_SEEDS)] = 10,
    show_plan: Annotated[bool, typer.Option("--plan", help="Say what would run and how long; run nothing.")] = False,
    destination: Annotated[Path, typer.Option("--out", help="Where runs and tables are kept.")] = Path(
        "experiments/results"
    ),
    page: Annotated[Path, typer.Option(help="With results: the page to bring up to date.")] = Path("docs/results.md"),
    jobs: Annotated[int, typer.Option(help="Groups of runs side by side, each in its own process.", min=1)] = 1,
    budget: Annotated[float | None, typer.Option(help="End in order before so many seconds.", min=1)] = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat runs made with other values than now.")] = False,
    models: Annotated[Path | None, typer.Option(help="Keep the trained models here too, as run folders.")] = None,
    seed: Annotated[int, typer.Option(help="The first run's seed.", min=0)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a table of the paper anew, run by run, beside the printed one; or the one past the paper, strong.

    A run that is stored is not repeated: a stopped reproduction goes on where it was. `results` makes no runs: it
    writes every table and docs/results.md from those that are stored.
    """
    if name == "results":
        if only or show_plan or again:
            raise InputError("results makes no runs; --only, --plan and --again go with a table")
        for each in table_names():
            write_table(find_table(each), destination)
        write_page(page, destination)
        say(f"{page} agrees with the runs in {destination}")
        return
    table = find_table(name)
    cells, seeds, where = table.choose(only or []), range(seed, seed + runs), resolve_device(device)
    if show_plan:
        planned = campaign.plan(table, cells, destination, seeds, where)
        if as_json:
            print_json(campaign.plan_json(planned))
            return
        out.print(tables.plan(planned))
        say(f"in all {tables.duration(campaign.total_seconds(planned))} on {machine_words(where)}")
        return
    complete = campaign.run(
        table,
        cells,
        destination,
        seeds,
        device=device,
        jobs=jobs,
        budget=budget,
        again=again,
        models=models,
        kept=lambda: write_table(table, destination),
    )
    results = write_table(table, destination)
    if as_json:
        print_json({"complete": complete, **render.figures_json(table, results)})
        return
    for grid in tables.reproduction(render.grids(table, results)):
        out.print(grid)
    for line in render.notes(table, results):
        say(line)
    for sentence in claims.sentences(table, results):
        say(sentence)
