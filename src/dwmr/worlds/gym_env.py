"""One Gymnasium environment for all puzzles."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import gymnasium
import numpy as np

from dwmr.seeding import below
from dwmr.worlds.noise import add_noise, quantiles


class Puzzle(Protocol):
    """What a puzzle must offer. A state is a value: ``step`` returns another and leaves the old one alone."""

    @property
    def n_classes(self) -> int:
        """Labels are below this."""

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """(H, W, C)."""

    def reset(self, seed: int) -> Any:
        """The first state of the level, which is a function of the seed alone."""

    def step(self, state: Any, action: int) -> Any:
        """The next state, for the five actions of `dwmr.worlds.actions`; an illegal move changes nothing."""

    def solved(self, state: Any) -> bool:
        """Whether the goal is reached."""

    def labels(self, state: Any) -> np.ndarray:
        """The symbolic grid, uint8 (rows, cols)."""

    def draw(self, state: Any, generator: np.random.Generator) -> np.ndarray:
        """An image, uint8 (H, W, C); the generator decides what varies between drawings of a state."""


class PuzzleEnv(gymnasium.Env[np.ndarray, np.int64]):
    """A puzzle seen through images.

    Observation: uint8 (H, W, C). Reward: 1 when the goal is reached, which ends the episode, else 0.
    ``info["state"]`` is the symbolic grid. ``reset(seed=…)`` fixes the level, ``reset()`` draws another one.

    Args:
        puzzle: where to find the puzzle, as ``module:class``.
        noop: add a fifth action that does nothing.
        noise: standard deviation, on the [0, 1] scale, of pixel noise added to every observation.
        render_mode: ``rgb_array`` or None. The picture is the last observation.
        rules: passed on to the puzzle.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        puzzle: str,
        *,
        noop: bool = False,
        noise: float = 0.0,
        render_mode: str | None = "rgb_array",
        **rules: Any,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be rgb_array or None, got {render_mode!r}")
        quantiles(noise)  # refuses a wrong noise here rather than in the first frame
        module, name = puzzle.split(":")
        self.puzzle: Puzzle = getattr(importlib.import_module(module), name)(**rules)
        self.noise = noise
        self.render_mode = render_mode
        self.n_actions = 5 if noop else 4
        self.action_space = gymnasium.spaces.Discrete(self.n_actions)
        self.observation_space = gymnasium.spaces.Box(0, 255, self.puzzle.observation_shape, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        level = int(below(self.np_random, 1 << 31, 1)[0]) if seed is None else seed
        self._state = self.puzzle.reset(level)
        return self._observe(), self._info()

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"action must be an integer from 0 to {self.n_actions - 1}, got {action!r}")
        self._state = self.puzzle.step(self._state, int(action))
        solved = self.puzzle.solved(self._state)
        return self._observe(), float(solved), solved, False, self._info()

    def render(self) -> np.ndarray | None:
        if self.render_mode is None:
            return None
        channels = self._frame.shape[-1]
        return self._frame.copy() if channels == 3 else self._frame.repeat(3, axis=-1)

    def _observe(self) -> np.ndarray:
        frame = self.puzzle.draw(self._state, self.np_random)
        if self.noise > 0:
            frame = add_noise(frame, self.np_random, self.noise)
        self._frame = np.ascontiguousarray(frame)
        return self._frame.copy()

    def _info(self) -> dict[str, Any]:
        return {"state": self.puzzle.labels(self._state)}
