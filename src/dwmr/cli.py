"""The command line: thin functions over the library. Wrong input ends in one line and exit status 2."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import dwmr
from dwmr import tables
from dwmr.checkpoint import RUN, read_info
from dwmr.config import option_names, parse_option
from dwmr.data import collect as benchmarks
from dwmr.data.digits import DigitsUnavailable
from dwmr.errors import InputError, TrainingDiverged, unknown
from dwmr.evaluation import examine
from dwmr.presets import PRESETS, TUNED, preset
from dwmr.reproduce import campaign, claims, render
from dwmr.reproduce.cells import find_table, table_names
from dwmr.reproduce.page import write_page, write_table
from dwmr.reproduce.runs import machine_words
from dwmr.run_folder import read_metrics
from dwmr.train import check_choices
from dwmr.transitions import Splits, Transitions, load_splits
from dwmr.world_model import resolve_device

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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def example(*lines: str) -> str:
    """The epilogue of a command's help."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  $ {line}" for line in lines)])


@app.command(
    epilog=example(
        "dwmr collect iceslider --out data/iceslider",
        "dwmr collect --env dwmr/SlidingTiles-v0 --transitions 5000 --out data/tiles",
    )
)
def collect(
    destination: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    benchmark: Annotated[
        str | None, typer.Argument(help="8puzzle, 8puzzle-noisy, iceslider, iceslider-noisy or digitjump.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Any Gymnasium environment with images and few actions.")] = None,
    transitions: Annotated[int | None, typer.Option(help="Size of the training split.", min=1)] = None,
    digits: Annotated[str, typer.Option(help="mnist, sklearn, or a folder with MNIST's IDX files.")] = "mnist",
    render: Annotated[bool, typer.Option("--render", help="With --env: learn from rendered frames.")] = False,
    episode_steps: Annotated[
        int | None, typer.Option(help="With --env: begin anew after so many actions (200).", min=1)
    ] = None,
    seed: Seed = 0,
) -> None:
    """Collect transitions: the paper's splits of a benchmark, or random walks in any environment."""
    if (benchmark is None) == (env is None):
        raise InputError("name a benchmark or an environment: dwmr collect iceslider …, or dwmr collect --env ID …")
    if env is not None:
        from dwmr.data.gym_collect import EPISODE_STEPS, collect_env

        if transitions is None:
            raise InputError("--env needs --transitions: how many to collect for training")
        steps = EPISODE_STEPS if episode_steps is None else episode_steps
        collect_env(env, destination, transitions=transitions, seed=seed, render=render, episode_steps=steps)
    elif benchmark is not None:
        if render or episode_steps is not None:
            raise InputError("--render and --episode-steps go with --env")
        benchmarks.collect_benchmark(benchmark, destination, seed=seed, transitions=transitions, digits=digits)
    splits = load_splits(destination)
    preview = _preview(splits.train, destination / "preview.png")
    sizes = ", ".join(f"{name} {len(part):,}" for name, part in _parts(splits).items())
    _say(f"{destination}: {sizes}{preview}")


@app.command(
    epilog=example(
        "dwmr train iceslider/dwmr --out runs/ice",
        "dwmr train 8puzzle/dwmr --data data/8puzzle --out runs/p --seeds 0-2 --set lr=2e-3 --set lr_factor=0.95",
        "dwmr train generic/dwmr --data mine.npz --out runs/mine --set bits=32",
    )
)
def train(
    name: Annotated[str, typer.Argument(metavar="PRESET", help="benchmark/model; `dwmr presets` lists them.")],
    run: Annotated[Path, typer.Option("--out", help="Run folder to make.")],
    data: Annotated[Path | None, typer.Option(help="Data folder or .npz; by default the preset's benchmark.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's last checkpoint.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", help="name=value, as often as wanted.")] = None,
    values: Annotated[Path | None, typer.Option("--config", help="JSON with values, such as a tuned preset.")] = None,
    seed: Seed = 0,
    seeds: Annotated[str | None, typer.Option(help="Several runs, such as 0-9 or 1,4,7: RUN/seed-N each.")] = None,
    fast: Annotated[str, typer.Option(help="auto, or off for the plain path.")] = "auto",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also log for TensorBoard.")] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a world model; RUN can be loaded at any moment, and resumed after a kill."""
    config = preset(name).replace(**_values_in(values) | _parse_settings(settings or []))
    check_choices(config, tensorboard=tensorboard, fast=fast)
    resolve_device(device)
    if seeds is not None and seed:
        raise InputError("give --seed or --seeds, not both")
    chosen = _parse_seeds(seeds) if seeds is not None else [seed]
    folders = {one: run / f"seed-{one}" if seeds is not None else run for one in chosen}
    taken = [folder for folder in folders.values() if folder.exists()]
    if taken and not resume:
        raise InputError(f"{taken[0]} exists already; --resume goes on with it, or choose another --out")
    splits = _load_data(data, config.benchmark)
    results = dwmr.train_many(
        config,
        train=splits.train,
        val=splits.val,
        seeds=chosen,
        outs=list(folders.values()),
        device=device,
        resume=resume,
        fast=fast,
        tensorboard=tensorboard,
    )
    ended = {str(folder): result for folder, result in zip(folders.values(), results)}
    done = {folder: result for folder, result in ended.items() if isinstance(result, dwmr.Run)}
    if as_json:
        _print_json({folder: result.metrics[-1] for folder, result in done.items()})
    else:
        for folder, result in done.items():
            _say(f"{folder}: {tables.last_epoch(result.metrics)}")
    failures = [f"{folder}: {result}" for folder, result in ended.items() if folder not in done]
    if failures:
        raise TrainingDiverged("; ".join(failures))


@app.command(
    epilog=example(
        "dwmr evaluate runs/ice",
        "dwmr evaluate runs/ice --data data/iceslider --split val --json",
        "dwmr evaluate runs/ice --report report.html",
    )
)
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    data: Annotated[Path | None, typer.Option(help="Data folder or .npz; by default the run's benchmark.")] = None,
    split: Annotated[str, typer.Option(help="test, val or train.")] = "test",
    horizon: Annotated[int, typer.Option(help="Longest roll-out.", min=1)] = 1000,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML page to look at.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Judge a world model: boards read from its bits, imagination, roll-outs, health of the code."""
    if split not in ("train", "val", "test"):
        raise unknown("split", split, ("train", "val", "test"))
    if report is not None:
        from dwmr.report import require_matplotlib

        require_matplotlib()
        if report.is_dir() or not report.name:
            raise InputError(f"--report names a file to write, got {str(report)!r}")
    if not (run / RUN).exists() and list(run.glob(f"seed-*/{RUN}")):
        raise InputError(f"{run} holds several runs; name one, such as {sorted(run.glob('seed-*'))[0]}")
    info = read_info(run)
    model = dwmr.WorldModel.load(run, device=device)
    splits = _load_data(data, info.config.benchmark)
    parts = _parts(splits)
    test = parts.get(split)
    if not isinstance(test, Transitions):
        raise InputError(f"the data has no split {split!r}; it has {', '.join(parts)}")
    found = examine(
        model, train=splits.train, test=test, rollout=splits.rollout, horizon=horizon, seed=seed, intervals=True
    )
    if report is not None:
        from dwmr.report import write_report

        write_report(report, info=info, metrics=read_metrics(run), model=model, examination=found, test=test)
    if as_json:
        _print_json(found.figures)
        return
    for table in tables.evaluation(found.figures):
        out.print(table)
    if report is not None:
        _say(f"report: {report}")


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
    write_preset: Annotated[
        bool, typer.Option("--write-preset", help="Make what was chosen the package's preset of that name.")
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Search hyperparameters: random, then learning from the scores; the best are trained longer, and again."""
    from dwmr import tuning, tuning_report

    fixed = _parse_settings(settings or [])
    tuning.prepare(name, fixed, storage, trials=trials, at_once=at_once, budget=budget)
    resolve_device(device)
    splits = _load_data(data, preset(name).benchmark)
    found = tuning.tune(
        name,
        splits,
        storage,
        trials=trials,
        seed=seed,
        settings=fixed,
        device=device,
        at_once=at_once,
        budget=budget,
        scratch=scratch,
    )
    written = tuning_report.save(found, storage)
    if write_preset and found["finished"]:
        written.append(tuning_report.write_preset(found))
    if as_json:
        _print_json(found)
        return
    _say(tables.tuning_line(found))
    for table in tables.tuning(found):
        out.print(table)
    _say(f"written: {', '.join(map(str, written))}")


@app.command(
    epilog=example(
        "dwmr reproduce table1 --plan",
        "dwmr reproduce table1 --only dwmr,8puzzle --runs 3",
        "dwmr reproduce table2 --budget 540",
        "dwmr reproduce results",
    )
)
def reproduce(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="table1, table2, table3; or results: write all again.")],
    only: Annotated[list[str] | None, typer.Option(help="ROW,COLUMN, a row or a column; as often as wanted.")] = None,
    runs: Annotated[int, typer.Option(help="Runs a cell.", min=1, max=MOST_SEEDS)] = 10,
    show_plan: Annotated[bool, typer.Option("--plan", help="Say what would run and how long; run nothing.")] = False,
    destination: Annotated[Path, typer.Option("--out", help="Where runs and tables are kept.")] = Path(
        "experiments/results"
    ),
    page: Annotated[Path, typer.Option(help="With results: the page to bring up to date.")] = Path("docs/results.md"),
    budget: Annotated[float | None, typer.Option(help="End in order before so many seconds.", min=1)] = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat runs made with other values than now.")] = False,
    seed: Annotated[int, typer.Option(help="The first run's seed.", min=0)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a table of the paper anew, run by run, and set it beside the printed one.

    A run that is stored is not repeated: a stopped reproduction goes on where it was. `results` makes no runs: it
    writes every table and docs/results.md from those that are stored.
    """
    if name == "results":
        if only or show_plan or again:
            raise InputError("results makes no runs; --only, --plan and --again go with a table")
        for each in table_names():
            write_table(find_table(each), destination)
        write_page(page, destination)
        _say(f"{page} agrees with the runs in {destination}")
        return
    table = find_table(name)
    cells, seeds, where = table.choose(only or []), range(seed, seed + runs), resolve_device(device)
    if show_plan:
        planned = campaign.plan(table, cells, destination, seeds, where)
        if as_json:
            _print_json(campaign.plan_json(planned))
            return
        out.print(tables.plan(planned))
        _say(f"in all {tables.duration(campaign.total_seconds(planned))} on {machine_words(where)}")
        return
    complete = campaign.run(
        table,
        cells,
        destination,
        seeds,
        device=device,
        budget=budget,
        again=again,
        kept=lambda: write_table(table, destination),
    )
    results = write_table(table, destination)
    if as_json:
        _print_json({"complete": complete, **render.figures_json(table, results)})
        return
    for grid in tables.reproduction(render.grids(table, results)):
        out.print(grid)
    for line in render.notes(table, results):
        _say(line)
    for sentence in claims.sentences(table, results):
        _say(sentence)


@app.command(epilog=example("dwmr presets", "dwmr presets --json"))
def presets(as_json: AsJson = False) -> None:
    """List the presets, and the options that --set takes."""
    if as_json:
        _print_json({name: config.to_dict() for name, config in PRESETS.items()})
        return
    out.print(tables.presets(PRESETS, TUNED))
    _say("tuned: trials of the search that found the values; –: start values")
    _say(f"Options of --set: {', '.join(option_names())}")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        _say(f"dwmr {dwmr.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; every foreseeable fault is one line on standard error and exit status 2."""
    warnings.showwarning = _show_warning
    _show_log()
    usage_error: Any = typer.BadParameter.__base__
    try:
        status = app(standalone_mode=False)
    except usage_error as error:
        if not error.format_message():  # no command was named, and the help is out already
            sys.exit(0)
        _fail(error.format_message())
    except (InputError, TrainingDiverged, DigitsUnavailable) as error:
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


def _say(line: str) -> None:
    out.print(line, highlight=False, markup=False, soft_wrap=True)


def _fail(message: str) -> None:
    err.print(f"error: {' '.join(message.split())}", markup=False, soft_wrap=True)
    sys.exit(2)


def _show_warning(message: Warning | str, *details: Any, **more: Any) -> None:
    err.print(f"warning: {message}", markup=False, soft_wrap=True)


def _parse_settings(settings: list[str]) -> dict[str, Any]:
    values = dict(parse_option(setting) for setting in settings)
    fixed = {"benchmark", "model"} & set(values)
    if fixed:
        raise InputError(f"{' and '.join(sorted(fixed))} come with the preset's name, not with --set")
    return values


def _values_in(path: Path | None) -> dict[str, Any]:
    """The values of a JSON file as `dwmr tune` writes it: by option, alone or under "values" (or "chosen")."""
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        found = found.get("chosen") or found
        return dict(found.get("values", found))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} holds no values of options: {error}") from error


def _parse_seeds(text: str) -> list[int]:
    """``0-9`` or ``1,4,7`` or a mixture, as numbers."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"seeds are given as 0-9 or 1,4,7, got {text!r}")
        seeds += range(int(first), min(int(last if dash else first), int(first) + MOST_SEEDS) + 1)
    if not 1 <= len(seeds) <= MOST_SEEDS or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds must name 1 to {MOST_SEEDS}, and none twice, got {text!r}")
    return seeds


def _load_data(data: Path | None, benchmark: str) -> Splits:
    """The data named, or the benchmark's own, collected once into the cache."""
    if data is not None:
        return load_splits(data)
    if benchmark not in benchmarks.BENCHMARKS:
        raise InputError(f"{benchmark!r} has no data of its own; name yours with --data")
    return load_splits(benchmarks.cached_benchmark(benchmark))


def _parts(splits: Splits) -> dict[str, Any]:
    named = {"train": splits.train, "val": splits.val, "test": splits.test, "rollout": splits.rollout}
    return {name: part for name, part in named.items() if part is not None}


def _preview(transitions: Transitions, path: Path) -> str:
    from dwmr.report.pictures import save_preview

    try:
        save_preview(transitions, path)
    except InputError as error:
        return f" (no preview: {error})"
    return f"; preview in {path}"


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
