"""Boolean world models learned from images and discrete actions.

t = dwmr.load_transitions("data/train")
run = dwmr.train(dwmr.preset("iceslider/dwmr"), train=t, out="runs/a")
wm = dwmr.WorldModel.load("runs/a")
bits = wm.encode(images)
"""

__version__ = "0.1.0"

from dwmr import losses, objectives
from dwmr.certification import certify
from dwmr.config import Config
from dwmr.distillation import distil
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation import evaluate
from dwmr.objectives import Objective
from dwmr.presets import preset
from dwmr.repair import Repair
from dwmr.train import Run, train, train_many
from dwmr.transitions import Rollouts, Splits, Transitions, load_rollouts, load_splits, load_transitions
from dwmr.world_model import WorldModel

__all__ = [
    "Config",
    "InputError",
    "Objective",
    "Repair",
    "Rollouts",
    "Run",
    "Splits",
    "TrainingDiverged",
    "Transitions",
    "WorldModel",
    "certify",
    "distil",
    "evaluate",
    "load_rollouts",
    "load_splits",
    "load_transitions",
    "losses",
    "objectives",
    "preset",
    "train",
    "train_many",
]
