"""Past the paper: the strong models, each technique added to the faithful model and each taken from the strong one.

A row's tier says what it was allowed to use: T transitions alone, as in the paper; J frames of the same state in a
trajectory; G a known grid. On IceSlider the paper's own encoder knows the grid, so nothing is added there. Labels (L)
chose the values of every row, by validation F1, and nothing else.
"""

from __future__ import annotations

from dwmr.training.objectives import OBJECTIVES
from experiments.reproduce import paper
from experiments.reproduce.cells import Row, Table

WIDE: dict[str, tuple[str, ...]] = {
    "encoding": ("encoding", "f1"),
    "imagination": ("imagination", "f1"),
    "board_encoding": ("encoding", "board_accuracy"),
    "board_imagination": ("imagination", "board_accuracy"),
    "exact_next": ("codes", "exact_next"),
    "same_code": ("codes", "same_code"),
    "state_share": ("codes", "state_share"),
    "exact_100": ("rollout", "100", "exact"),
    "exact_1000": ("rollout", "1000", "exact"),
    "f1_20": ("rollout", "20", "f1"),
    "f1_100": ("rollout", "100", "f1"),
    "true_f1_encoding": ("encoding", "f1_true_labels"),
    "true_f1_imagination": ("imagination", "f1_true_labels"),
}

_NARROW = {"margin": 0.15}  # as every preset has it but the strong one of noisy IceSlider
_ONE_LOOK = {"cross": False, **_NARROW}  # without a second look the margin means nothing
_GRID = {"8puzzle": {"encoder": "tiles", "bits": 63}}
_LATE_LOOKS = {
    "8puzzle": {"cross_from": 20, "cross_to": 30, "cosine": False, "cosine_from": 0, "agree": 0.0, "cos": 1.15}
}
_BY_CHANCE = {"iceslider": {"slow_start": False, "predictor_first": 0}}
_ALL_BITS = {"iceslider": {"by_cell": False}}
_DISAGREE = {"8puzzle": {"agree": 0.0}, "iceslider": {"agree": 0.0}}
_SLOW = {"iceslider": {"slow_start": True}}
_BY_CELL = {"iceslider": {"by_cell": True}}
_FAR = {"8puzzle": {"predictor": "residual"}, "iceslider": {"predictor": "far"}}
_FAR_WORDS = "far-seeing or residual predictor"
_NEAR = {"8puzzle": {"predictor": "mlp"}, "iceslider": {"predictor": "conv"}}

_RIVALS = {
    "ae": "AE",
    "beta-vae": "β-VAE",
    "deepcubeai": "DeepCubeAI",
    "dwmr+ae": "DWMR+AE",
    "dwmr+beta-vae": "DWMR+β-VAE",
}

STRONG = Table(
    name="strong",
    title="Past the paper",
    figure="f1",
    columns=paper.ALL,
    paper={},
    wide=WIDE,
    headline="strong",
    rows=(
        Row("strong", "strong", preset="strong"),
        Row("strong-two-views", "strong, and two views", "strong", {"two_views": True, **_NARROW}),
        Row("strong-grid", "strong, tile by tile", "strong-grid", by_family={"8puzzle": {}}),
        Row(
            "strong-grid-two-views",
            "strong, tile by tile, and two views",
            "strong-grid",
            {"two_views": True},
            {"8puzzle": {}},
        ),
        Row("strong-no-cross", "strong, usual moments", "strong", _ONE_LOOK),
        Row("strong-no-far", "strong, the paper's predictor", "strong", by_family=_NEAR),
        Row("strong-no-cosine", "strong, constant learning rate", "strong", {"cosine": False}),
        Row("strong-random-start", "strong, random first weights", "strong", by_family=_BY_CHANCE),
        Row("strong-all-bits", "strong, moments over all bits", "strong", by_family=_ALL_BITS),
        Row("strong-no-agreement", "strong, without agreement", "strong", by_family=_DISAGREE),
        Row("strong-narrow-margin", "strong, narrow margin", "strong", _NARROW),
        Row("strong-late-looks", "strong, late looks, constant rate, no agreement", "strong", by_family=_LATE_LOOKS),
        Row("dwmr", "DWMR"),
        Row("dwmr-cross", "DWMR, moments across looks", changes={"cross": True}),
        Row("dwmr-agreement", "DWMR, moments across looks, agreement", changes={"cross": True, "agree": 4.0}),
        Row("dwmr-by-cell", "DWMR, moments by cell", by_family=_BY_CELL),
        Row("dwmr-far", f"DWMR, {_FAR_WORDS}", by_family=_FAR),
        Row("dwmr-grid", "DWMR, grid encoder", by_family=_GRID),
        Row("dwmr-slow-start", "DWMR, slow start", by_family=_SLOW),
        Row("dwmr-two-views", "DWMR, two views", changes={"two_views": True}),
        Row("dwmr-cosine", "DWMR, cosine learning rate", changes={"cosine": True}),
        Row("dwmr-warm-up", "DWMR, warm-up", changes={"warmup": 2}),
        Row("dwmr-steps", "DWMR, two steps ahead", changes={"steps": 2}),
        Row("dwmr-sharper", "DWMR, sharper probabilities", changes={"temperature_factor": 0.95}),
        *(Row(f"{name}-grid", f"{title}, grid encoder", name, {}, _GRID) for name, title in _RIVALS.items()),
        *(Row(f"{name}-far", f"{title}, {_FAR_WORDS}", name, {}, _FAR) for name, title in _RIVALS.items()),
        *(
            Row(f"{name}-two-views", f"{title}, two views", name, {"two_views": True})
            for name, title in _RIVALS.items()
            if OBJECTIVES[name].scheme != "joint"  # which has no targets that a second view could mend
        ),
    ),
    remarks=(
        "Tiers: T transitions alone, as in the paper; J frames of the same state in a trajectory; G a known grid. "
        "Labels (L) chose the values of the presets, by validation F1; what a row changes was not tuned again.",
        "On noisy IceSlider two views are added to the model with the narrow margin.",
    ),
)
