"""What one minibatch does to the weights, and what it must leave alone."""

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.config import HYPER_NAMES, Config, Hyper
from dwmr.data.batches import Batch
from dwmr.data.transitions import Transitions
from dwmr.models.decoders import PatchDecoder
from dwmr.models.encoders import PatchEncoder
from dwmr.models.predictors import ConvPredictor
from dwmr.models.world_model import WorldModel
from dwmr.training.learner import Learner, RunState
from dwmr.training.objectives import OBJECTIVES, Objective
from dwmr.training.schemes import SCHEMES, predictor_step

SHAPE, BITS, ACTIONS, SAMPLES = (3, 16, 16), 12, 4, 10
VALUES = {**vars(Config().hyper), "low": 0.0, "high": 2.0, "tau": 0.8, "lr": 0.01}
TWO_STEPS = ["two_step", "two_step_st"]
WITH_TARGET = ["soft", "straight_through", *TWO_STEPS]


def make_hyper(**other: float) -> Hyper:
    return Hyper(**{name: torch.tensor({**VALUES, **other}[name], dtype=torch.float64) for name in HYPER_NAMES})


def make_learner(hyper: Hyper, objective: Objective = OBJECTIVES["dwmr"]) -> Learner:
    """IceSlider's networks for 2×2 patches, in double precision, with a target that lags behind."""
    torch.manual_seed(0)
    model = WorldModel(
        PatchEncoder(SHAPE, BITS),
        ConvPredictor(SHAPE, BITS, ACTIONS),
        PatchDecoder(SHAPE, BITS) if objective.decoder else None,
        image_shape=SHAPE,
        n_actions=ACTIONS,
        bits=BITS,
    ).double()
    learner = Learner([RunState(model.train(), hyper.lr)], objective, hyper.lr)
    with torch.no_grad():
        for parameter in learner.runs[0].target.parameters():
            parameter.mul_(0.5)
    return learner


def make_batch(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    images, next_images = torch.rand(2, SAMPLES, *SHAPE, generator=generator, dtype=torch.float64)
    actions = F.one_hot(torch.randint(ACTIONS, (SAMPLES,), generator=generator), ACTIONS).double()
    noise = torch.rand(SAMPLES, BITS, generator=generator, dtype=torch.float64)
    return Batch(images, actions, next_images, noise)


def values_of(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def parameters_of(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def differs(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return any(not torch.equal(one[name], other[name]) for name in one)


def inputs_of(module: torch.nn.Module) -> list[Tensor]:
    """A list that fills with the first input of each forward pass."""
    seen: list[Tensor] = []
    module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    return seen


def test_step_one_changes_the_predictor_and_moves_the_target_and_nothing_else():
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper)
    SCHEMES["two_step"](learner, make_batch(1), hyper)  # so that there are Adam moments to disturb
    encoder, predictor = values_of(learner.runs[0].model.encoder), values_of(learner.runs[0].model.predictor)
    moments = copy.deepcopy(learner.codes_optimizer.state_dict()["state"])

    bits = (torch.rand(SAMPLES, BITS, dtype=torch.float64) > 0.5).double()
    predictor_step(learner, batch, hyper, bits, bits, [])

    assert_equal(values_of(learner.runs[0].model.encoder), encoder)
    for index, state in learner.codes_optimizer.state_dict()["state"].items():
        assert_equal(state, moments[index])
    assert differs(values_of(learner.runs[0].model.predictor), predictor)


@pytest.mark.parametrize("name", TWO_STEPS)
def test_between_the_steps_the_encoder_has_only_seen_one_forward_pass(name):
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper)
    once = copy.deepcopy(learner.runs[0].model.encoder)
    once(batch.images)
    states: list[dict[str, Tensor]] = []
    learner.runs[0].model.predictor.register_forward_pre_hook(
        lambda *_: states.append(values_of(learner.runs[0].model.encoder))
    )
    SCHEMES[name](learner, batch, hyper)
    assert len(states) == 2
    for state in states:
        assert_equal(state, values_of(once))
    after = values_of(learner.runs[0].model.encoder)
    assert differs(after, values_of(once))
    for buffer, value in once.named_buffers():
        assert torch.equal(after[buffer], value)


@pytest.mark.parametrize(
    ("name", "online", "target", "predictor"),
    [
        ("soft", 1, 1, 1),
        ("straight_through", 1, 1, 1),
        ("two_step", 1, 1, 2),
        ("two_step_st", 1, 1, 2),
        ("joint", 2, 0, 1),
    ],
)
def test_how_often_each_network_runs(name, online, target, predictor):
    hyper = make_hyper()
    learner = make_learner(hyper)
    networks = (learner.runs[0].model.encoder, learner.runs[0].target, learner.runs[0].model.predictor)
    modes: list[list[bool]] = [[], [], []]
    for network, seen in zip(networks, modes):
        network.register_forward_pre_hook(lambda module, _, seen=seen: seen.append(module.training))
    SCHEMES[name](learner, make_batch(), hyper)
    assert modes == [[True] * online, [False] * target, [True] * predictor]


@pytest.mark.parametrize(
    ("name", "fed"),
    [
        ("soft", ["probs with gradient"]),
        ("straight_through", ["bits with gradient"]),
        ("two_step", ["bits", "probs with gradient"]),
        ("two_step_st", ["bits", "bits with gradient"]),
        ("joint", ["bits with gradient"]),
    ],
)
def test_what_the_predictor_is_fed(name, fed):
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper)
    probs = torch.sigmoid(copy.deepcopy(learner.runs[0].model.encoder)(batch.images)).detach()
    seen = inputs_of(learner.runs[0].model.predictor)
    SCHEMES[name](learner, batch, hyper)

    def describe(codes: Tensor) -> str:
        kind = "probs" if torch.equal(codes, probs) else "bits" if torch.equal(codes, (probs >= 0.5).double()) else "?"
        return kind + (" with gradient" if codes.requires_grad else "")

    assert [describe(codes) for codes in seen] == fed


def test_the_target_moves_twice_a_minibatch_of_two_steps():
    hyper = make_hyper(lr=0.0, tau=0.8)
    learner = make_learner(hyper)
    encoder, target = parameters_of(learner.runs[0].model.encoder), parameters_of(learner.runs[0].target)
    SCHEMES["two_step"](learner, make_batch(), hyper)
    assert_equal(parameters_of(learner.runs[0].model.encoder), encoder)
    for name, now in parameters_of(learner.runs[0].target).items():
        assert torch.allclose(now, 0.8**2 * target[name] + (1 - 0.8**2) * encoder[name], rtol=1e-12)


@pytest.mark.parametrize("name", ["soft", "straight_through"])
def test_the_target_moves_once_a_minibatch_of_one_step(name):
    hyper = make_hyper(tau=0.8)
    learner = make_learner(hyper)
    target = parameters_of(learner.runs[0].target)
    SCHEMES[name](learner, make_batch(), hyper)
    encoder = parameters_of(learner.runs[0].model.encoder)  # the target follows the new weights
    for key, now in parameters_of(learner.runs[0].target).items():
        assert torch.allclose(now, 0.8 * target[key] + 0.2 * encoder[key], rtol=1e-12)


@pytest.mark.parametrize("name", WITH_TARGET)
def test_the_targets_running_statistics_are_copies(name):
    hyper = make_hyper()
    learner = make_learner(hyper)
    SCHEMES[name](learner, make_batch(), hyper)
    online = dict(learner.runs[0].model.encoder.named_buffers())
    assert online["layers.1.num_batches_tracked"] == 1
    assert_equal(dict(learner.runs[0].target.named_buffers()), online)


@pytest.mark.parametrize("name", WITH_TARGET)
def test_without_memory_the_target_is_the_encoder(name):
    hyper = make_hyper(tau=0.0)
    learner = make_learner(hyper)
    SCHEMES[name](learner, make_batch(), hyper)
    assert_equal(values_of(learner.runs[0].target), values_of(learner.runs[0].model.encoder))


def test_forward_passes_and_validation_move_nothing():
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper)
    learner.runs[0].model.float()
    learner.runs[0].target.float()
    model, target = values_of(learner.runs[0].model), values_of(learner.runs[0].target)
    images = (batch.images * 255).to(torch.uint8).numpy()
    data = Transitions(images, batch.actions.argmax(-1).numpy(), images[::-1], n_actions=ACTIONS)
    networks = learner.runs[0].model
    networks.count_right(networks.encode(data.obs), torch.from_numpy(data.actions), networks.encode(data.next_obs))
    learner.target_bits(batch.next_images.float())
    assert_equal(values_of(learner.runs[0].model), model)
    assert_equal(values_of(learner.runs[0].target), target)
    assert learner.runs[0].model.training


def test_the_predictor_alone_learns_from_the_bits_of_a_finished_encoder():
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper)
    model, target = learner.runs[0].model, learner.runs[0].target
    target.load_state_dict(model.encoder.state_dict())
    encoder, predictor = values_of(model.encoder), values_of(model.predictor)
    bits = (copy.deepcopy(target)(batch.images) >= 0).double()
    report = SCHEMES["predictor_alone"](learner, batch, hyper)
    assert torch.equal(report.bits, bits)
    assert list(report.terms) == ["pred"]
    assert_equal(values_of(model.encoder), encoder)
    assert differs(values_of(model.predictor), predictor)


@pytest.mark.parametrize("name", sorted(set(SCHEMES) - {"predictor_alone"}))
def test_the_report_is_of_the_codes_before_the_update_and_carries_no_graph(name):
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper)
    bits = (copy.deepcopy(learner.runs[0].model.encoder)(batch.images) >= 0).double()
    report = SCHEMES[name](learner, batch, hyper)
    assert torch.equal(report.bits, bits)
    assert set(report.next_bits.unique().tolist()) <= {0.0, 1.0}
    assert not any(tensor.requires_grad for tensor in (report.bits, report.next_bits, *report.terms.values()))


@pytest.mark.parametrize("frame", ["probs", "next_probs"])
def test_joint_gives_gradient_through_both_frames_and_leaves_the_target_alone(frame):
    only = Objective({"mine": lambda codes, hyper: getattr(codes, frame).mean()}, weights={"mine": 1.0})
    hyper = make_hyper()
    learner = make_learner(hyper, only)
    encoder, target = parameters_of(learner.runs[0].model.encoder), values_of(learner.runs[0].target)
    SCHEMES["joint"](learner, make_batch(), hyper)
    assert differs(parameters_of(learner.runs[0].model.encoder), encoder)
    assert_equal(values_of(learner.runs[0].target), target)


def test_joint_decodes_the_bits_of_both_frames_with_gradient():
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper, OBJECTIVES["deepcubeai"])
    encoder = copy.deepcopy(learner.runs[0].model.encoder)
    decoder = inputs_of(learner.runs[0].model.decoder)
    SCHEMES["joint"](learner, batch, hyper)
    assert all(codes.requires_grad for codes in decoder)
    for codes, images in zip(decoder, (batch.images, batch.next_images), strict=True):
        assert torch.equal(codes, (torch.sigmoid(encoder(images)) >= 0.5).double())


def test_the_decoder_alone_sees_the_noise_of_the_variational_models():
    hyper, batch = make_hyper(noise=1.5), make_batch()
    learner = make_learner(hyper, OBJECTIVES["dwmr+beta-vae"])
    logits = copy.deepcopy(learner.runs[0].model.encoder)(batch.images)
    noised, probs = torch.sigmoid(logits + 1.5 * torch.logit(batch.noise)), torch.sigmoid(logits)
    predictor, decoder = inputs_of(learner.runs[0].model.predictor), inputs_of(learner.runs[0].model.decoder)
    SCHEMES["two_step"](learner, batch, hyper)
    assert len(decoder) == 1
    assert torch.allclose(decoder[0], noised)
    assert torch.allclose(predictor[1], probs)
    assert torch.equal(predictor[0], (probs >= 0.5).double())


def test_models_without_noise_ignore_it():
    hyper, batch = make_hyper(), make_batch()
    learner = make_learner(hyper, OBJECTIVES["dwmr+ae"])
    probs = torch.sigmoid(copy.deepcopy(learner.runs[0].model.encoder)(batch.images))
    seen = inputs_of(learner.runs[0].model.decoder)
    SCHEMES["two_step"](learner, batch, hyper)
    assert torch.allclose(seen[0], probs)


def naive_two_step(model: WorldModel, target: torch.nn.Module, batches: list[Batch]) -> None:
    """The paper's §3.3 in plain torch: two optimizer steps a minibatch, the target follows after each."""
    v = VALUES
    encoder_adam = torch.optim.Adam(model.encoder.parameters(), lr=v["lr"], foreach=False)
    predictor_adam = torch.optim.Adam(model.predictor.parameters(), lr=v["lr"], foreach=False)

    @torch.no_grad()
    def follow() -> None:
        for slow, fast in zip(target.parameters(), model.encoder.parameters()):
            slow.copy_(v["tau"] * slow + (1 - v["tau"]) * fast)
        for slow, fast in zip(target.buffers(), model.encoder.buffers()):
            slow.copy_(fast)

    for batch in batches:
        p = torch.sigmoid(model.encoder(batch.images))
        with torch.no_grad():
            next_b = (torch.sigmoid(target(batch.next_images)) >= 0.5).double()

        predicted = torch.sigmoid(model.predictor((p.detach() >= 0.5).double(), batch.actions))
        predictor_adam.zero_grad()
        F.binary_cross_entropy(predicted, next_b).backward()
        predictor_adam.step()
        follow()

        predicted = torch.sigmoid(model.predictor(p, batch.actions))
        standard = (p - p.mean(0)) / (p.std(0) + 1e-6)
        distinct = ~torch.eye(BITS, dtype=torch.bool)
        three = distinct[:, :, None] & distinct[None, :, :] & distinct[:, None, :]
        change = (p - next_b).abs()
        flipped = torch.where(change > 0.5, change, 0.0).sum(1) / (0.75 * BITS)
        middle, half_width = (v["low"] + v["high"]) / (2 * BITS), (v["high"] - v["low"]) / (2 * BITS)
        loss = (
            F.binary_cross_entropy(predicted, next_b)
            + v["var"] * (v["gamma"] - (p.var(0) + 1e-6).sqrt()).clamp(min=0).mean()
            + v["cor"] * (standard.T @ standard / (SAMPLES - 1))[distinct].abs().mean()
            + v["cos"] * torch.einsum("ni,nj,nk->ijk", standard, standard, standard).div(SAMPLES)[three].abs().mean()
            + v["loc"] * ((flipped - middle).abs() - half_width).clamp(min=0).square().mean()
        )
        encoder_adam.zero_grad()
        predictor_adam.zero_grad()
        loss.backward()
        encoder_adam.step()
        predictor_adam.step()
        follow()


def test_two_step_agrees_with_an_update_written_from_scratch():
    hyper, batches = make_hyper(), [make_batch(0), make_batch(1), make_batch(2)]
    learner = make_learner(hyper)
    model, target = copy.deepcopy(learner.runs[0].model), copy.deepcopy(learner.runs[0].target)
    naive_two_step(model, target, batches)
    for batch in batches:
        SCHEMES["two_step"](learner, batch, hyper)
    for ours, theirs in ((learner.runs[0].model, model), (learner.runs[0].target, target)):
        expected = values_of(theirs)
        for name, value in values_of(ours).items():
            assert torch.allclose(value, expected[name], rtol=1e-6, atol=1e-9), name
