"""DoorKey and FourRooms of MiniGrid, with the levels and tiles of that package: ``pip install 'dwmr[minigrid]'``."""

import functools
import importlib
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dwmr.errors import InputError
from dwmr.seeding import below
from dwmr.worlds.puzzle import StateWorld

FLOOR, WALL, GOAL, KEY, LOCKED, CLOSED, OPEN, AGENT = range(8)
HEADINGS = 4  # right, down, left, up
_UNDER_AGENT = (FLOOR, GOAL, OPEN)
DATA_LEVELS = 1500

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)


class Rooms(NamedTuple):
    """A state: what is in each cell, row by row, where the agent is, and which way it faces."""

    cells: bytes
    agent: int
    heading: int


@dataclass(frozen=True)
class MiniGrid(StateWorld):
    """Reach the goal. The agent turns, and moves forward onto floor, onto the goal or into an open door.

    Labels: floor 0, wall 1, goal 2, key 3, locked door 4, closed door 5, open door 6; the agent on floor 7 to 10, on
    the goal 11 to 14 and in an open door 15 to 18, facing right, down, left or up. All of the state is visible. The
    goal does not end an episode of collected data. Levels are those that the installed MiniGrid makes of a seed; data
    are from the first 1,500.
    """

    side: ClassVar[int]
    pixels: ClassVar[int]
    n_classes = AGENT + HEADINGS * len(_UNDER_AGENT)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return 3, self.side * self.pixels, self.side * self.pixels

    def reset(self, seed: int) -> Rooms:
        return _level(self.name, seed)

    def step(self, state: Rooms, action: int) -> Rooms:
        cells, agent, heading = state
        if action in (LEFT, RIGHT):
            return Rooms(cells, agent, (heading + (1 if action == RIGHT else -1)) % HEADINGS)
        ahead = agent + (1, self.side, -1, -self.side)[heading]
        there = cells[ahead]
        if action == FORWARD:
            return Rooms(cells, ahead, heading) if there in _UNDER_AGENT else state
        changed = {(TOGGLE, CLOSED): OPEN, (TOGGLE, OPEN): CLOSED, (PICK_UP, KEY): FLOOR}
        if KEY not in cells:  # the agent carries it
            changed |= {(TOGGLE, LOCKED): OPEN, (DROP, FLOOR): KEY}
        after = changed.get((action, there), there)
        return Rooms(cells[:ahead] + bytes([after]) + cells[ahead + 1 :], agent, heading)

    def solved(self, state: Rooms) -> bool:
        return state.cells[state.agent] == GOAL

    def labels(self, state: Rooms) -> np.ndarray:
        grid = np.frombuffer(state.cells, np.uint8).reshape(self.side, self.side).copy()
        under = _UNDER_AGENT.index(state.cells[state.agent])
        grid.flat[state.agent] = AGENT + HEADINGS * under + state.heading
        return grid

    @functools.cached_property
    def pictures(self) -> np.ndarray:
        items, grid = _package("core.world_object"), _package("core.grid").Grid
        door = functools.partial(items.Door, "yellow")
        doors = [door(is_locked=True), door(), door(is_open=True)]
        cells = [None, items.Wall(), items.Goal(), items.Key("yellow"), *doors]
        shown: list[tuple[Any, int | None]] = [(cell, None) for cell in cells]
        shown += [(cells[code], heading) for code in _UNDER_AGENT for heading in range(HEADINGS)]
        drawn = [grid.render_tile(item, heading, tile_size=self.pixels) for item, heading in shown]
        return np.stack(drawn).astype(np.uint8).transpose(0, 3, 1, 2)


@dataclass(frozen=True)
class DoorKey(MiniGrid):
    """Fetch the key, open the door, go to the goal. The key is in no cell while the agent carries it.

    Random walks hardly ever get through the door, so collected episodes start at one of three stages: where the level
    starts; with the key taken, before the door; or with the door closed or open, the agent in any cell, and the key
    taken or in any other.
    """

    name = "doorkey"
    side = 8
    pixels = 8
    action_names = ("left", "right", "forward", "pick-up", "drop", "toggle")

    def random_state(self, generator: np.random.Generator) -> Rooms:
        limits = np.array([DATA_LEVELS, 3, HEADINGS, 2, 2, 64, 64])
        level, stage, heading, door, key, first, second = below(generator, limits, len(limits)).tolist()
        start = self.reset(level)
        if stage == 0:
            return start
        cells = bytearray(start.cells)
        cells[cells.index(KEY)] = FLOOR
        locked = cells.index(LOCKED)
        if stage == 2:
            cells[locked] = (CLOSED, OPEN)[door]
        free = [cell for cell, code in enumerate(cells) if code == FLOOR]
        if stage == 1:
            free = [cell for cell in free if cell % self.side < locked % self.side]
        agent = free.pop(first % len(free))
        if stage == 2 and key:
            cells[free[second % len(free)]] = KEY
        return Rooms(bytes(cells), agent, heading)


@dataclass(frozen=True)
class FourRooms(MiniGrid):
    """Go to the goal through the gaps between four rooms. Collected episodes start in any cell without the goal."""

    name = "fourrooms"
    side = 19
    pixels = 5
    action_names = ("left", "right", "forward")

    def random_state(self, generator: np.random.Generator) -> Rooms:
        level, cell, heading = below(generator, np.array([DATA_LEVELS, self.side**2, HEADINGS]), 3).tolist()
        cells = self.reset(level).cells
        free = [place for place, code in enumerate(cells) if code == FLOOR]
        return Rooms(cells, free[cell % len(free)], heading)


@functools.lru_cache(maxsize=4096)
def _level(name: str, seed: int) -> Rooms:
    env = _environment(name)
    env.reset(seed=seed)
    col, row = env.agent_pos
    return Rooms(bytes(map(_code, env.grid.grid)), int(row) * env.width + int(col), int(env.agent_dir))


@functools.cache
def _environment(name: str) -> Any:
    envs = _package("envs")
    return envs.DoorKeyEnv(size=DoorKey.side) if name == DoorKey.name else envs.FourRoomsEnv()


def _package(module: str) -> Any:
    try:
        return importlib.import_module(f"minigrid.{module}")
    except ImportError as error:
        raise InputError("this world needs MiniGrid: pip install 'dwmr[minigrid]'") from error


def _code(item: Any) -> int:
    if item is None:
        return FLOOR
    if item.type == "door":
        return OPEN if item.is_open else LOCKED if item.is_locked else CLOSED
    return {"wall": WALL, "goal": GOAL, "key": KEY}[item.type]
