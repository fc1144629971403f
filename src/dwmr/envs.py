"""Import this module to register the worlds with Gymnasium, if it is installed.

import gymnasium, dwmr.envs
env = gymnasium.make("dwmr/IceSlider-v0", min_solution=8)
"""

import importlib.util

from dwmr.worlds.registry import ENVIRONMENTS

if importlib.util.find_spec("gymnasium") is not None:
    import gymnasium

    for _name, _world in ENVIRONMENTS.items():
        gymnasium.register(
            f"dwmr/{_name}",
            entry_point="dwmr.worlds.gym_env:WorldEnv",
            kwargs={"world": f"{_world.__module__}:{_world.__qualname__}"},
        )
