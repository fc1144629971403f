"""How far to trust a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import dwmr
from dwmr.cli import tables
from dwmr.cli.common import AsJson, Device, Seed, app, check_split, example, open_run, out, print_json, say
from dwmr.data.transitions import Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.models.world_model import WorldModel
from dwmr.worlds.registry import WORLDS

MOST_LEVELS = 250


@app.command(
    epilog=example(
        "dwmr certify runs/ice",
        "dwmr certify runs/ice --data data/iceslider --levels 50 --json",
    )
)
def certify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    data: Annotated[Path | None, typer.Option(help="Data folder or .npz; by default the run's benchmark.")] = None,
    split: Annotated[str, typer.Option(help="test, val or train.")] = "test",
    horizon: Annotated[int, typer.Option(help="Longest roll-out.", min=1)] = 1000,
    levels: Annotated[
        int, typer.Option(help="Levels of IceSlider or DigitJump to compare state by state.", min=0, max=MOST_LEVELS)
    ] = MOST_LEVELS,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say how far to trust a world model, mostly without labels: an answer a question, and the figures behind it."""
    check_split(split)
    _, model, splits, test = open_run(run, data, split, device)
    found = certificate(model, test, splits.rollout, horizon=horizon, seed=seed, levels=levels)
    if as_json:
        print_json(found)
        return
    for table in tables.certificate(found):
        out.print(table)
    say(found["summary"])


def certificate(
    model: WorldModel,
    test: Transitions,
    rollout: Rollouts | None,
    *,
    horizon: int,
    seed: int,
    levels: int = MOST_LEVELS,
) -> dict[str, Any]:
    """`dwmr.certify` of a model, with the levels of the world that the data comes from."""
    if (test.image_shape, test.n_actions) != (model.image_shape, model.n_actions):
        raise InputError(
            f"the model takes images {model.image_shape} and {model.n_actions} actions, but the data has "
            f"{test.image_shape} and {test.n_actions}"
        )
    world = WORLDS.get(test.about.get("benchmark", ""))
    graphs = world.true_graphs(world.levels["test"][:levels], seed) if world is not None and levels else None
    return dwmr.certify(model.encode, model.predict, test, rollouts=rollout, graphs=graphs, horizon=horizon, seed=seed)
