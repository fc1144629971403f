"""Boolean world models learned from images and discrete actions.

t = dwmr.load_transitions("data/train")
run = dwmr.train(dwmr.preset("iceslider/dwmr"), train=t, out="runs/a")
wm = dwmr.WorldModel.load("runs/a")
bits = wm.encode(images)
"""

from dwmr.config import Config
from dwmr.data.transitions import Rollouts, Splits, Transitions, load_rollouts, load_splits, load_transitions
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation.certificate import certify
from dwmr.evaluation.evaluate import evaluate
from dwmr.models.world_model import WorldModel
from dwmr.presets import preset
from dwmr.training import losses, objectives
from dwmr.training.objectives import Objective
from dwmr.training.trainer import Run, fit, train, train_many
from dwmr.version import __version__

__all__ = [
    "Config",
    "InputError",
    "Objective",
    "Rollouts",
    "Run",
    "Splits",
    "TrainingDiverged",
    "Transitions",
    "WorldModel",
    "__version__",
    "certify",
    "evaluate",
    "fit",
    "load_rollouts",
    "load_splits",
    "load_transitions",
    "losses",
    "objectives",
    "preset",
    "train",
    "train_many",
]
