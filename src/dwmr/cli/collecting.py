"""`dwmr collect`."""

from pathlib import Path
from typing import Annotated

import typer

from dwmr.cli import common
from dwmr.data.collect import collect_world
from dwmr.data.transitions import load_splits
from dwmr.errors import InputError
from dwmr.files import check_output
from dwmr.worlds.registry import WORLDS

OUT_HELP = "Data folder to create. It must not exist yet."
ENV_HELP = "Id of a Gymnasium environment with images and discrete actions, instead of WORLD."
TRANSITIONS_HELP = (
    "Number of training transitions; the other splits are scaled accordingly. Default: the standard size of WORLD, "
    "which is also the maximum. Required with --env."
)
DIGITS_HELP = (
    "For worlds with handwritten digits, such as 8puzzle: mnist (downloaded if missing) or sklearn (small digits that "
    "come with scikit-learn)."
)
SEEDED = f"the actions, {common.RENDERING}, and where episodes start ({common.FIXED_LEVELS})"
RENDER_HELP = "With --env: store the images that the environment renders, not its observations."


@common.command(
    "dwmr collect iceslider --out data/iceslider",
    "dwmr collect 8puzzle --out data/small --transitions 4000 --digits sklearn",
    "dwmr collect --env dwmr/SlidingTiles-v0 --transitions 5000 --out data/tiles",
)
def collect(
    destination: Annotated[Path, typer.Option("--out", help=OUT_HELP)],
    world: Annotated[str | None, typer.Argument(metavar="WORLD", help=f"Built-in world: {', '.join(WORLDS)}.")] = None,
    env: Annotated[str | None, typer.Option(help=ENV_HELP)] = None,
    transitions: Annotated[int | None, typer.Option(help=TRANSITIONS_HELP, min=1)] = None,
    digits: Annotated[str, typer.Option(help=DIGITS_HELP)] = "mnist",
    render: Annotated[bool, common.flag("--render", RENDER_HELP)] = False,
    seed: Annotated[int, common.seed_of(SEEDED)] = 0,
) -> None:
    """Collect data from random actions in a built-in world, or in any Gymnasium environment.

    The data folder holds four splits. train, val and test consist of transitions: an image, an action, and the next
    image. rollout consists of long episodes, on which dwmr evaluate tests long predictions. docs/reference/worlds.md
    describes the worlds; names that end in -noisy add pixel noise.
    """
    if (world is None) == (env is None):
        raise InputError("name a world or an environment: dwmr collect iceslider …, or dwmr collect --env ID …")
    check_output(destination)
    if env is not None:
        from dwmr.data.gym_collect import collect_env

        if transitions is None:
            raise InputError("--env needs --transitions, the size of the training split")
        collect_env(env, destination, transitions=transitions, seed=seed, render=render)
    elif world is not None:
        if render:
            raise InputError("--render needs --env")
        collect_world(world, destination, seed=seed, transitions=transitions, digits=digits)
    parts = common.parts_of(load_splits(destination))
    units = {name: "episodes" if name == "rollout" else "transitions" for name in parts}
    common.say(f"{destination}: " + ", ".join(f"{name} {len(part):,} {units[name]}" for name, part in parts.items()))
