"""Puzzles: pure rules, levels and drawing in one file each, and a Gymnasium environment for every one.

Importing this package registers the environments if gymnasium is installed. The rules need numpy alone.
"""

from __future__ import annotations

import importlib.util


def _register(name: str, puzzle: str) -> None:
    import gymnasium

    gymnasium.register(f"dwmr/{name}", entry_point="dwmr.worlds.gym_env:PuzzleEnv", kwargs={"puzzle": puzzle})


if importlib.util.find_spec("gymnasium") is not None:
    _register("SlidingTiles-v0", "dwmr.worlds.sliding_tiles:SlidingTiles")
    _register("IceSlider-v0", "dwmr.worlds.ice_slider:IceSlider")
    _register("DigitJump-v0", "dwmr.worlds.digit_jump:DigitJump")
