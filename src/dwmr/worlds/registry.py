"""The worlds by name. To add one: write its file, then register it here."""

from dataclasses import replace

from dwmr.errors import InputError, unknown
from dwmr.worlds.cube import PocketCube, RubiksCube
from dwmr.worlds.digit_jump import DigitJump
from dwmr.worlds.fifteen_puzzle import FifteenPuzzle
from dwmr.worlds.frozen_lake import FrozenLake
from dwmr.worlds.ice_slider import IceSlider
from dwmr.worlds.lights_out import LightsOut
from dwmr.worlds.mini_grid import DoorKey, FourRooms
from dwmr.worlds.sliding_tiles import SlidingTiles
from dwmr.worlds.sokoban import Sokoban
from dwmr.worlds.tasks import Task
from dwmr.worlds.towers import Blocks, Hanoi
from dwmr.worlds.world import World

NOISE_STD = 0.5

WORLDS: dict[str, World] = {}
"""What the names in presets, data folders and on the command line stand for."""

ENVIRONMENTS: dict[str, type[World]] = {}
"""Gymnasium environments: the id without ``dwmr/``, and the world, whose options `gymnasium.make` takes."""


def register(world: World, environment: str, *, noisy: bool = False, **variants: World) -> None:
    """Add a world, its Gymnasium id without ``dwmr/``, and the world with other options, each as ``name-variant``.

    With ``noisy``, the world with pixel noise is one of them.
    """
    if noisy:
        variants = {"noisy": replace(world, noise=NOISE_STD), **variants}
    WORLDS[world.name] = world
    WORLDS.update({f"{world.name}-{variant}": other for variant, other in variants.items()})
    ENVIRONMENTS[environment] = type(world)


def find_world(name: str) -> World:
    """The world of that name; the error for another name suggests similar ones."""
    if name not in WORLDS:
        raise unknown("world", name, WORLDS)
    return WORLDS[name]


def tasks_of(name: str, *, seed: int = 0, trials: int | None = None, digits: str = "mnist") -> dict[str, list[Task]]:
    """The planning tasks of a world by kind, the main kind first, or the first ``trials`` of each kind."""
    if name not in WORLDS:
        raise InputError(f"{name!r} has no planning tasks; the worlds with tasks are {', '.join(WORLDS)}")
    return WORLDS[name].with_digits(digits).tasks(seed, trials)


def action_names(name: str | None, n_actions: int) -> tuple[str, ...]:
    """The names of a world's actions; ``action-0`` and so on for anything else."""
    known = WORLDS[name].action_names if name in WORLDS else ()
    return known if len(known) == n_actions else tuple(f"action-{number}" for number in range(n_actions))


register(SlidingTiles(size=3), "SlidingTiles-v0", noisy=True)
register(IceSlider(min_solution=1), "IceSlider-v0", noisy=True)
register(DigitJump(), "DigitJump-v0")
register(Sokoban(), "Sokoban-v0", noisy=True)
register(FrozenLake(), "FrozenLake-v0", noisy=True)
register(LightsOut(), "LightsOut-v0", noisy=True, digits=LightsOut(style="digits"), twisted=LightsOut(twisted=True))
register(Hanoi(), "Hanoi-v0", noisy=True)
register(Blocks(), "Blocks-v0", noisy=True)
register(PocketCube(), "Cube2-v0", noisy=True, jitter=PocketCube(jitter=40), views=PocketCube(style="views"))
register(RubiksCube(), "Cube3-v0", noisy=True, views=RubiksCube(style="views"))
register(FifteenPuzzle(), "FifteenPuzzle-v0", noisy=True, digits=FifteenPuzzle(style="digits"))
register(DoorKey(), "DoorKey-v0")
register(FourRooms(), "FourRooms-v0")
