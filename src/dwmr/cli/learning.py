"""`dwmr train` and `dwmr presets`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import dwmr
from dwmr.cli import common, tables
from dwmr.cli.common import command, flag
from dwmr.config import FACTOR_SUFFIX, option_names
from dwmr.errors import InputError, TrainingDiverged
from dwmr.models.run_folder import read_info
from dwmr.models.verdict import FAILED
from dwmr.models.world_model import resolve_device
from dwmr.presets import PRESETS, TUNED, preset
from dwmr.training.trainer import check_choices

PRESET_HELP = "auto (for your own data), or WORLD/MODEL, such as iceslider/strong. `dwmr presets` lists all presets."
OUT_HELP = "Run folder to create. Without --resume, it must not exist yet."
RESUME_HELP = "Continue the interrupted run in --out; if there is none, start a new one."
CONFIG_HELP = "JSON file with values of options, such as the result of dwmr tune. --set overrides it."
SEEDS_HELP = "Train one run per seed, such as 0-9 or 1,4,7, each in OUT/seed-N. Not with --seed."
FAST_HELP = (
    "auto: train with accelerated operations where the machine supports them; off: train with plain PyTorch, which is "
    "slower. The computation is the same, up to rounding."
)
DATA_HELP = (
    common.DATA_HELP.format(
        "Data folder, or .npz file with the arrays obs, actions and next_obs (see docs/howto/your-own-data.md)",
        "preset",
    )
    + " Required for auto and the generic/ presets."
)


@command(
    "dwmr train iceslider/dwmr --out runs/ice",
    "dwmr train 8puzzle/dwmr --data data/8puzzle --out runs/p --seeds 0-2 --set lr=2e-3 --set lr_factor=0.95",
    "dwmr train auto --data mine.npz --out runs/mine",
)
def train(
    name: Annotated[str, typer.Argument(metavar="PRESET", help=PRESET_HELP)],
    run: Annotated[Path, typer.Option("--out", help=OUT_HELP)],
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    resume: Annotated[bool, flag("--resume", RESUME_HELP)] = False,
    settings: common.Settings = None,
    values: Annotated[Path | None, typer.Option("--config", help=CONFIG_HELP)] = None,
    seed: Annotated[int, common.seed_of("the initial weights and the order of the minibatches")] = 0,
    seeds: Annotated[str | None, typer.Option(help=SEEDS_HELP)] = None,
    fast: Annotated[str, typer.Option(help=FAST_HELP)] = "auto",
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Train a world model.

    A preset is a named configuration. For your own data, start with auto. It chooses networks and settings from the
    data, and ends with a verdict on the model: exact (good enough for planning), readable (good enough for recovering
    the state from a code, but not for planning), or failed (good enough for neither; exit status 3). In Python,
    dwmr.fit does the same. If auto fails, or if you want to choose the settings yourself, use generic/strong or another
    generic/ preset, and tune it with dwmr tune. The settings of all other presets were chosen for the world in their
    name.

    The run folder holds the configuration, the weights and a record of every epoch. All of them are saved after every
    epoch, so the run can be used while training continues.
    """
    config = preset(name).replace(**_values_in(values) | common.parse_settings(settings))
    check_choices(config, fast=fast)
    resolve_device(device)
    if seeds is not None and seed:
        raise InputError("give --seed or --seeds, not both")
    chosen = [seed] if seeds is None else _parse_seeds(seeds)
    folders = [run if seeds is None else run / f"seed-{one}" for one in chosen]
    for out in folders:
        if out.exists() and not resume:
            raise InputError(f"{out} exists already; continue it with --resume, or choose another --out")
        if out.exists():
            read_info(out)  # refuses what is no run folder
        elif resume:
            common.note(f"{out} does not exist yet, so a new run starts there")
    splits = common.load_data(data, config.benchmark)
    results = dwmr.train_many(
        config, train=splits.train, val=splits.val, seeds=chosen, outs=folders, device=device, resume=resume, fast=fast
    )
    ended = dict(zip(map(str, folders), results))
    done = {folder: result for folder, result in ended.items() if isinstance(result, dwmr.Run)}
    verdicts = {folder: result.verdict for folder, result in done.items() if result.verdict is not None}
    if as_json:
        known = {folder: {"verdict": verdict.to_dict()} for folder, verdict in verdicts.items()}
        common.print_json({folder: result.metrics[-1] | known.get(folder, {}) for folder, result in done.items()})
    else:
        for folder, result in done.items():
            common.say(f"{folder}: {tables.last_epoch(result.metrics)}")
            if folder in verdicts:
                common.say(f"verdict: {verdicts[folder]}")
    failures = [f"{folder}: {result}" for folder, result in ended.items() if folder not in done]
    if failures:
        raise TrainingDiverged("; ".join(failures))
    if any(verdict.word == FAILED for verdict in verdicts.values()):
        raise typer.Exit(3)


@command("dwmr presets", "dwmr presets --json")
def presets(as_json: common.AsJson = False) -> None:
    """List the presets (named configurations), and the options that `dwmr train --set` can change.

    The preset auto chooses networks and settings from your data. All other presets are named WORLD/MODEL. The model
    dwmr is the method of the paper; strong adds our improvements; ae, beta-vae, deepcubeai, dwmr+ae and dwmr+beta-vae
    are the other models of the paper. The 8-puzzle also has strong-grid, whose encoder is told how the
    image divides into the nine cells of the board, and reads each cell separately. The presets generic/MODEL hold start
    values for your own data, to be tuned with dwmr tune.
    """
    if as_json:
        common.print_json({name: config.to_dict() for name, config in PRESETS.items()})
        return
    common.out.print(tables.presets(PRESETS, TUNED))
    common.say("lr: learning rate; tau: decay of the target encoder")
    common.say("tuned: number of configurations tried by dwmr tune to find the values; –: values chosen by hand")
    names = [name for name in option_names() if name not in ("benchmark", "model") and not name.endswith(FACTOR_SUFFIX)]
    common.say(f"Options of dwmr train --set, explained in docs/reference/presets-and-options.md: {', '.join(names)}")
    common.say(
        "All values from lr to the end of this list can change over time: "
        f"--set lr{FACTOR_SUFFIX}=0.97 multiplies lr by 0.97 after every epoch"
    )


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
        seeds += range(int(first), min(int(last if dash else first), int(first) + common.MOST_SEEDS) + 1)
    if not 1 <= len(seeds) <= common.MOST_SEEDS or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds must name 1 to {common.MOST_SEEDS}, and none twice, got {text!r}")
    return seeds
