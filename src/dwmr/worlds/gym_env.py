"""One Gymnasium environment for all worlds."""

import importlib
from typing import Any

import gymnasium
import numpy as np

from dwmr.seeding import below
from dwmr.worlds.noise import add_noise, quantiles
from dwmr.worlds.world import World


class WorldEnv(gymnasium.Env[np.ndarray, np.int64]):
    """A world seen through images.

    Observation: uint8 (H, W, C). Reward: 1 when the goal is reached, which ends the episode, else 0.
    ``info["state"]`` holds the labels. ``reset(seed=…)`` fixes the level, ``reset()`` draws another one.

    Args:
        world: where to find the `World` subclass, as ``module:class``.
        noop: add an action that does nothing, after the others.
        noise: standard deviation, on the [0, 1] scale, of pixel noise in every observation.
        render_mode: ``rgb_array`` or None. The picture is the last observation.
        options: passed on to the world.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        world: str,
        *,
        noop: bool = False,
        noise: float = 0.0,
        render_mode: str | None = "rgb_array",
        **options: Any,
    ) -> None:
        if render_mode not in ("rgb_array", None):
            raise ValueError(f"render_mode must be rgb_array or None, got {render_mode!r}")
        module, name = world.split(":")
        self.world: World = getattr(importlib.import_module(module), name)(**options)
        quantiles(noise)  # wrong noise and missing digits should fail here, not in the first frame
        self.world.drawing("train")
        self.noise = noise
        self.render_mode = render_mode
        self.n_actions = len(self.world.action_names) + noop
        self.action_space = gymnasium.spaces.Discrete(self.n_actions)
        channels, height, width = self.world.image_shape
        self.observation_space = gymnasium.spaces.Box(0, 255, (height, width, channels), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        level = int(below(self.np_random, 1 << 31, 1)[0]) if seed is None else seed
        self._state = self.world.reset(level)
        return self._observe(), self._info()

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"action must be an integer from 0 to {self.n_actions - 1}, got {action!r}")
        if action < len(self.world.action_names):
            self._state = self.world.step(self._state, int(action))
        solved = self.world.solved(self._state)
        return self._observe(), float(solved), solved, False, self._info()

    def render(self) -> np.ndarray | None:
        if self.render_mode is None:
            return None
        channels = self._frame.shape[-1]
        return self._frame.copy() if channels == 3 else self._frame.repeat(3, axis=-1)

    def _observe(self) -> np.ndarray:
        frame = self.world.render(self._state, self.np_random, "train").transpose(1, 2, 0)
        self._frame = add_noise(frame, self.np_random, self.noise) if self.noise else np.ascontiguousarray(frame)
        return self._frame.copy()

    def _info(self) -> dict[str, Any]:
        return {"state": self.world.labels(self._state)}
