"""The model families: which loss terms they sum, on which codes.

A term is a function of the codes of one minibatch and the current hyperparameters. Its weight is the hyperparameter
of the same name or, for a term of your own, a number in ``weights``:

    mine = OBJECTIVES["dwmr"].adding("few_ones", lambda codes, hyper: codes.probs.mean(), weight=0.1)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dwmr.config import HYPER_NAMES, Config, Hyper
from dwmr.errors import InputError
from dwmr.models.bits import straight_through, threshold
from dwmr.training import losses

# For each action after the next image: predicted logits, target bits, and which samples go on that far.
LaterCodes = tuple[tuple[Tensor, Tensor, Tensor], ...]


@dataclass(frozen=True)
class Codes:
    """What the networks computed from one minibatch of one run."""

    images: Tensor  # (N, C, H, W), normalised
    probs: Tensor  # (N, K): bit probabilities of the current images
    next_bits: Tensor  # (N, K): target bits of the next images, without gradient
    predicted: Tensor  # (N, K): logits that the predictor gives for them
    decoded: Tensor | None = None  # images decoded from (noised) probs, if there is a decoder
    triplets: Tensor | None = None  # (T, 3): sample for the coskewness, or None for all
    next_images: Tensor | None = None
    next_probs: Tensor | None = None  # where a scheme encodes the next images with gradient
    next_decoded: Tensor | None = None
    actions: Tensor | None = None  # (N, A), one-hot
    later: LaterCodes = ()  # predictions further ahead, each from the bits that the step before predicted


Term = Callable[[Codes, Hyper], Tensor]


@dataclass(frozen=True)
class Objective:
    """A weighted sum of named terms."""

    terms: Mapping[str, Term]
    weights: Mapping[str, float] = field(default_factory=dict)
    decoder: bool = False
    noise: bool = False  # the decoder sees Binary Concrete samples instead of probabilities
    scheme: str | None = None  # the only scheme this family can be trained with
    next_probs: bool = False  # the next images are encoded with gradient too

    def __post_init__(self) -> None:
        unweighted = set(self.terms) - set(self.weights) - set(HYPER_NAMES)
        if unweighted:
            raise InputError(f"no weight for the loss terms {', '.join(sorted(unweighted))}")
        idle = set(self.weights) - set(self.terms)
        if idle:
            raise InputError(f"weights for terms that do not exist: {', '.join(sorted(idle))}")

    def adding(self, name: str, term: Term, weight: float) -> Objective:
        """The same family with one more term."""
        if name in self.terms:
            raise InputError(f"there is a loss term {name!r} already")
        return dataclasses.replace(self, terms={**self.terms, name: term}, weights={**self.weights, name: weight})

    def without(self, name: str) -> Objective:
        """The same family less one term."""
        terms = {other: term for other, term in self.terms.items() if other != name}
        weights = {other: weight for other, weight in self.weights.items() if other != name}
        return dataclasses.replace(self, terms=terms, weights=weights)

    def evaluate(self, codes: Codes, hyper: Hyper) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum, and each term unweighted."""
        terms = {name: _scalar(name, term(codes, hyper)) for name, term in self.terms.items()}
        weights = {**vars(hyper), **self.weights}
        return torch.stack([weights[name] * value for name, value in terms.items()]).sum(0), terms


def _scalar(name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor) or value.ndim:
        got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"the loss term {name!r} must return a scalar tensor, got {got}; take the mean, for example")
    return value


def later_prediction(later: LaterCodes) -> Tensor:
    return torch.stack([losses.later_prediction(*step) for step in later]).mean(0)


def _symmetric_prediction(codes: Codes, hyper: Hyper) -> Tensor:
    """DeepCubeAI's L_pred': the encoder moves towards the prediction and the prediction towards the encoder."""
    next_probs, predicted = _present(codes.next_probs), torch.sigmoid(codes.predicted)
    to_prediction = losses.bit_error(straight_through(next_probs), threshold(predicted))
    to_encoding = losses.bit_error(predicted, threshold(next_probs))
    return (to_prediction + to_encoding) / 2


def _both_reconstructions(codes: Codes, hyper: Hyper) -> Tensor:
    """DeepCubeAI's L_rec'."""
    now = losses.reconstruction(_present(codes.decoded), codes.images)
    then = losses.reconstruction(_present(codes.next_decoded), _present(codes.next_images))
    return (now + then) / 2


def _present(tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise InputError("this objective needs a decoder; that of DeepCubeAI also needs the scheme 'joint'")
    return tensor


def _moments(cells: int = 1) -> dict[str, Term]:
    """The terms that are taken over the bits of a whole code or, with several ``cells``, of one cell."""

    def views(codes: Codes) -> tuple[Tensor, Tensor]:
        """The encoder view and the predictor view of the next state."""
        encoded, predicted = _present(codes.next_probs), torch.sigmoid(codes.predicted)
        return losses.by_cell(encoded, cells), losses.by_cell(predicted, cells)

    def shared(codes: Codes) -> Tensor:
        return losses.cross_covariance(*views(codes))

    return {
        "var": lambda codes, hyper: losses.variance(losses.by_cell(codes.probs, cells), hyper.gamma),
        "cor": lambda codes, hyper: losses.correlation(losses.by_cell(codes.probs, cells)),
        "cross_var": lambda codes, hyper: losses.cross_variance(shared(codes), hyper.cross_gamma),
        "cross_cor": lambda codes, hyper: losses.cross_correlation(shared(codes), hyper.margin),
        "agree": lambda codes, hyper: losses.agreement(*views(codes)),
    }


_MOMENTS = _moments()
_PRED: dict[str, Term] = {"pred": lambda codes, hyper: losses.prediction(codes.predicted, codes.next_bits)}
_REC: dict[str, Term] = {"rec": lambda codes, hyper: losses.reconstruction(_present(codes.decoded), codes.images)}
_KL: dict[str, Term] = {"kl": lambda codes, hyper: losses.kl(codes.probs)}
_DWMR: dict[str, Term] = {
    **_PRED,
    "var": _MOMENTS["var"],
    "cor": _MOMENTS["cor"],
    "cos": lambda codes, hyper: losses.coskewness(codes.probs, codes.triplets),
    "loc": lambda codes, hyper: losses.locality(codes.probs, codes.next_bits, hyper.low, hyper.high),
}

OBJECTIVES: dict[str, Objective] = {
    "ae": Objective(_PRED | _REC, decoder=True),
    "beta-vae": Objective(_PRED | _REC | _KL, decoder=True, noise=True),
    "deepcubeai": Objective(
        {"pred": _symmetric_prediction, "rec": _both_reconstructions}, decoder=True, scheme="joint"
    ),
    "dwmr": Objective(_DWMR),
    "dwmr+ae": Objective(_DWMR | _REC, decoder=True),
    "dwmr+beta-vae": Objective(_DWMR | _REC | _KL, decoder=True, noise=True),
    "symbols": Objective(_PRED, decoder=True, scheme="predictor_alone"),
    "strong": Objective(_DWMR),  # DWMR's terms; its presets add what goes beyond the paper
}


def objective_of(config: Config, cells: int = 1) -> Objective:
    """The terms of a configuration's model, with those of the techniques it asks for. ``cells`` is how many its encoder
    lays its code out over."""
    family = OBJECTIVES[config.model]
    terms = dict(family.terms)
    if config.cross:
        terms |= {name: _MOMENTS[name] for name in ("cross_var", "cross_cor", "agree")}
    if config.steps > 1:
        terms["later"] = lambda codes, hyper: later_prediction(codes.later)
    if config.by_cell:
        terms |= {name: term for name, term in _moments(cells).items() if name in terms}
    return family if terms == family.terms else dataclasses.replace(family, terms=terms, next_probs=config.cross)


def shared_objective(configs: Sequence[Config], cells: int = 1) -> Objective:
    """The terms of runs that are trained together and differ in weights alone. A coskewness of weight 0 in all of them
    is left out: it is a fifth of an update of 192 bits."""
    family = objective_of(configs[0], cells)
    return family.without("cos") if all(config.hyper.cos == 0 for config in configs) else family
