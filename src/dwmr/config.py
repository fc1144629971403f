"""Configurations: frozen dataclasses that hold every choice of a run, and nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from dwmr.errors import InputError, unknown

FACTOR_SUFFIX = "_factor"


@dataclass(frozen=True)
class Hyper:
    """The quantities that may change from epoch to epoch: numbers in a configuration, tensors in an update."""

    lr: float | Tensor = 1e-3
    pred: float | Tensor = 1.0  # weights of the loss terms, λ in the paper
    var: float | Tensor = 2.0
    cor: float | Tensor = 2.0
    cos: float | Tensor = 2.0
    loc: float | Tensor = 2.0
    rec: float | Tensor = 1.0
    kl: float | Tensor = 0.1
    gamma: float | Tensor = 0.4  # standard deviation that a bit should reach
    low: float | Tensor = 3.0  # window of bits that an action should flip, L and U in the paper
    high: float | Tensor = 10.0
    tau: float | Tensor = 0.9  # decay of the target encoder; 0: the target is the encoder itself
    temperature: float | Tensor = 1.0
    noise: float | Tensor = 1.0  # scale of the logistic noise of the variational models
    cross_var: float | Tensor = 4.0  # weights of the moments across two views, if `Config.cross` is set
    cross_cor: float | Tensor = 2.0
    cross_gamma: float | Tensor = 0.49  # root of the covariance that the two views should share
    margin: float | Tensor = 0.15  # correlation of two bits across views that costs nothing
    agree: float | Tensor = 0.0  # weight of the views' disagreement, bit by bit
    later: float | Tensor = 1.0  # weight of the prediction of later states, where `Config.steps` asks for it; like
    # `pred`, it does not reach the predictor's own step of a two-step scheme


TERMS = ("pred", "var", "cor", "cos", "loc", "rec", "kl", "cross_var", "cross_cor", "agree", "later")  # loss weights
HYPER_NAMES = tuple(f.name for f in dataclasses.fields(Hyper))
NO_CHANGE = Hyper(**dict.fromkeys(HYPER_NAMES, 1.0))


RENAMED = {"slow_start": "init_from_slow_features"}  # options of version 0.1 by their present names
REMOVED = {"noisy_predictor": False}  # options of version 0.1 that are gone, with the value that is left

_LEAST = {"bits": 1, "epochs": 1, "batch_size": 2, "steps": 1}  # smallest values
_LEAST |= dict.fromkeys(("triplets", "symbols", "warmup", "cosine_from", "predictor_first", "cross_from"), 0)
# Options that act through the hyperparameters of an epoch alone.
_SHAPES = ("schedules", "cross_from", "cross_to", "predictor_first", "cosine", "cosine_from", "warmup")


@dataclass(frozen=True)
class Config:
    """One run, but for its data and seed."""

    benchmark: str = "generic"
    model: str = "dwmr"  # a name in dwmr.training.objectives.OBJECTIVES
    encoder: str = "generic"  # names in dwmr.models; "custom" for a module handed to train
    predictor: str = "generic"
    decoder: str = "generic"  # built only if the model has one
    bits: int = 64
    standardize: bool = True  # images by the training mean and deviation; otherwise they stay in [0, 1]
    probe: str = "affine"  # "affine" reads all bits for each cell, "grid" reads each cell from its own bits
    scheme: str = "two_step"  # a name in dwmr.training.schemes.SCHEMES
    epochs: int = 40
    batch_size: int = 256
    triplets: int = 0  # triplets sampled for the coskewness in each update; 0: all of them
    schedules: bool = True  # False: every factor counts as 1
    hyper: Hyper = field(default_factory=Hyper)
    factors: Hyper = NO_CHANGE  # each quantity is multiplied by its factor at the end of every epoch
    # Beyond the paper, all off by default.
    cross: bool = False  # variance and correlation are taken across the two views of the next state
    cross_from: int = 2  # epochs between which the moments across views replace the usual ones
    cross_to: int = 5
    by_cell: bool = False  # variance and correlation of the bits of one cell, over all cells; for encoders with a grid
    init_from_slow_features: bool = False  # the encoder's last layer starts from what changes least between frames
    predictor_first: int = 0  # first epochs, in which only the predictor learns (two-step schemes)
    two_views: bool = False  # targets from two frames of the same state, where the data has them
    steps: int = 1  # actions imagined in a row, each from the bits of the step before, and compared with the data
    cells: str = ""  # "8x8:8x8+0+0" is 8×8 cells of 8×8 pixels; "1x21:83" 21 parts of the image, of up to 83 pixels
    symbols: int = 0  # how many symbols a cell can show, for the encoder "symbols"
    cosine: bool = False  # the learning rate falls along half a cosine, to nearly 0
    cosine_from: int = 0  # epoch from which it falls
    warmup: int = 0  # epochs in which the learning rate rises

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """``benchmark/model``, as presets are named; a strong 8-puzzle model with a grid encoder has one of its own.
        ``auto`` keeps its name whatever it chose."""
        if self.benchmark == "auto":
            return "auto"
        own = self.model == "strong" and self.encoder == "tiles" and self.benchmark.startswith("8puzzle")
        grid = "-grid" if own else ""
        return f"{self.benchmark}/{self.model}{grid}"

    def replace(self, **values: Any) -> Config:
        """A copy with other values, by flat names: ``replace(epochs=5, lr=2e-3, lr_factor=0.97)``."""
        typed = {name: _as_type(name, value) for name, value in values.items()}
        hyper = {name: value for name, value in typed.items() if name in HYPER_NAMES}
        factors = {name: typed[name + FACTOR_SUFFIX] for name in HYPER_NAMES if name + FACTOR_SUFFIX in typed}
        return dataclasses.replace(
            self,
            **{name: value for name, value in typed.items() if name in _own_names()},
            hyper=dataclasses.replace(self.hyper, **hyper),
            factors=dataclasses.replace(self.factors, **factors),
        )

    def flat(self) -> dict[str, Any]:
        """Every value by the name that `replace` takes."""
        factors = {name + FACTOR_SUFFIX: value for name, value in vars(self.factors).items()}
        return {name: getattr(self, name) for name in _own_names()} | vars(self.hyper) | factors

    def structure(self) -> Config:
        """This configuration without its hyperparameters and schedules: runs that share it can be trained together."""
        shapes = {name: getattr(Config, name) for name in _SHAPES}
        scheme = "two_step" if self.scheme == "two_step_st" else self.scheme  # they differ in what a step is fed
        return dataclasses.replace(self, hyper=Hyper(low=0.0, high=0.0), factors=NO_CHANGE, scheme=scheme, **shapes)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Config:
        """The inverse of `to_dict`. A missing field takes its default, an unknown one is refused; names of version 0.1
        are understood."""
        flat: dict[str, Any] = {}
        for name, value in values.items():
            if name == "hyper":
                flat.update(value)
            elif name == "factors":
                flat.update({key + FACTOR_SUFFIX: number for key, number in value.items()})
            elif name not in REMOVED or value != REMOVED[name]:
                flat[RENAMED.get(name, name)] = value
        return Config().replace(**flat)


def _own_names() -> list[str]:
    return [f.name for f in dataclasses.fields(Config) if f.name not in ("hyper", "factors")]


def option_names() -> list[str]:
    """Every name that `Config.replace` takes."""
    return [*_own_names(), *HYPER_NAMES, *(name + FACTOR_SUFFIX for name in HYPER_NAMES)]


def parse_option(text: str) -> tuple[str, Any]:
    """``"lr=2e-3"`` as a name and a value of the right type."""
    name, sign, value = text.partition("=")
    if not sign:
        raise InputError(f"an option is set as name=value, got {text!r}")
    return name, _as_type(name, value)


def check(config: Config) -> None:
    """Refuse values that cannot work."""

    def require(fine: bool, name: str, value: object, expected: str) -> None:
        if not fine:
            raise InputError(f"{name} must be {expected}, got {value}")

    for name, least in _LEAST.items():
        require(getattr(config, name) >= least, name, getattr(config, name), f"at least {least}")
    finished = config.scheme == "predictor_alone"  # codes are, and no triplets of their bits are looked at
    require(config.bits >= 3 or finished, "bits", config.bits, "at least 3")
    steps, waits, joint = config.steps, config.predictor_first, config.scheme == "joint"
    require(steps == 1 or not joint, "steps", steps, "1 with the scheme 'joint'")
    require(not (config.two_views and joint), "two_views", "true", "false with the scheme 'joint'")
    require(waits == 0 or config.scheme.startswith("two_step"), "predictor_first", waits, "0 without a two-step scheme")
    require(config.cross_from <= config.cross_to, "cross_from", config.cross_from, "from 0 to cross_to")
    require(config.probe in ("affine", "grid"), "probe", repr(config.probe), "'affine' or 'grid'")
    values, factors = vars(config.hyper), vars(config.factors)
    for name, value in values.items():
        require(math.isfinite(value) and value >= 0, name, value, "a finite number of at least 0")
        require(0.5 <= factors[name] <= 2, name + FACTOR_SUFFIX, factors[name], "between 0.5 and 2")
    require(values["lr"] > 0, "lr", values["lr"], "above 0")
    require(values["tau"] < 1, "tau", values["tau"], "in [0, 1)")
    require(values["cross_gamma"] <= 0.5, "cross_gamma", values["cross_gamma"], "in [0, 0.5]")
    require(values["temperature"] > 0, "temperature", values["temperature"], "above 0")
    for epoch in {0, config.epochs - 1 if config.schedules else 0}:
        now = {name: _grown(value, factors[name], epoch) for name, value in values.items()}
        when = "" if epoch == 0 else f" in epoch {epoch + 1}"
        require(math.isfinite(max(now.values())), f"every quantity{when}", max(now.values()), "a finite number")
        require(now["gamma"] <= 0.5, f"gamma{when}", now["gamma"], "in [0, 0.5]")
        low, high, rising = now["low"], now["high"], f"rising and within the {config.bits} bits"
        require(low <= high <= config.bits, f"the window low to high{when}", f"{low:g} to {high:g}", rising)


def _grown(start: float, factor: float, epoch: int) -> float:
    try:
        return start * factor**epoch
    except OverflowError:
        return math.inf


def _as_type(name: str, value: Any) -> Any:
    """``value`` as the type of the option; text is read, numbers are taken if nothing is lost."""
    if name not in option_names():
        raise unknown("option", name, option_names())
    kind: type = type(getattr(Config, name)) if name in _own_names() else float
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in words:
            raise InputError(f"{name} must be true or false, got {value!r}")
        return words[str(value).lower()]
    if kind is str:
        if not isinstance(value, str):
            raise InputError(f"{name} must be text, got {value!r}")
        return value
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, bool) or (not isinstance(value, str) and number != value):
        wanted = "a whole number" if kind is int else "a number"
        raise InputError(f"{name} must be {wanted}, got {value!r}")
    return number
