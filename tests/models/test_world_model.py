"""Encode, predict, imagine, decode: on the ring of four lights, and with the faithful networks."""

import numpy as np
import pytest
import torch

from dwmr import InputError, WorldModel, preset
from dwmr.models import world_model
from dwmr.models.world_model import build_model, image_statistics, resolve_device
from tests.evaluation.ring import LEFT, RIGHT, draw, ring_model


def small_model(seed: int = 0, decoder: bool = True) -> WorldModel:
    return build_model(preset("generic/ae", bits=10), (2, 9, 7), 3, decoder=decoder, seed=seed)


def random_images(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(256, size=(count, *shape)).astype(np.uint8)


def test_encode_predict_imagine_by_hand():
    model = ring_model()
    bits = model.encode(draw(np.array([0, 3])))
    assert bits.dtype == torch.bool
    assert bits.int().tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert model.predict(bits, np.array([RIGHT, LEFT])).int().tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    path = model.imagine(bits[:1], np.array([[RIGHT, RIGHT, LEFT]]))
    assert path.shape == (1, 3, 4)
    assert path.int().argmax(-1).tolist() == [[1, 2, 1]]


def test_arrays_tensors_and_numbers_are_the_same():
    model = ring_model()
    images = draw(np.array([0, 1, 2]))
    bits = model.encode(images)
    assert torch.equal(bits, model.encode(torch.from_numpy(images)))
    actions = np.array([0, 1, 0])
    expected = model.predict(bits, actions)
    for codes in (bits.numpy(), bits.float(), bits.numpy().astype(np.uint8)):
        assert torch.equal(model.predict(codes, torch.from_numpy(actions)), expected)
    for kind in (np.uint8, np.int16, np.uint16, np.uint64):
        assert torch.equal(model.predict(bits, actions.astype(kind)), expected)


def test_read_only_arrays_are_fine():
    model = ring_model()
    images, actions = draw(np.array([0, 1])), np.array([0, 1])
    images.flags.writeable = actions.flags.writeable = False
    assert model.predict(model.encode(images), actions).shape == (2, 4)


def test_chunks_change_nothing():
    model, images = small_model(), random_images(7, 2, 9, 7)
    bits = model.encode(images)
    assert torch.equal(model.encode(images, batch=3), bits)
    actions = np.array([[0, 1], [2, 2], [1, 0], [0, 0], [1, 1], [2, 0], [0, 2]])
    assert torch.equal(model.imagine(bits, actions, batch=2), model.imagine(bits, actions))
    assert torch.equal(model.decode(bits, batch=4), model.decode(bits))


def test_large_images_are_encoded_and_decoded_few_at_once(monkeypatch):
    model, images, sizes = small_model(), random_images(7, 2, 9, 7), []
    bits, drawn = model.encode(images), model.decode(model.encode(images))
    monkeypatch.setattr(world_model, "NUMBERS_AT_ONCE", 3 * 2 * 9 * 7)  # three images; the largest power of two is two
    for network in (model.encoder, model.decoder):
        network.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    assert torch.equal(model.encode(images), bits)
    assert torch.equal(model.decode(bits), drawn)
    assert sizes == [2, 2, 2, 1] * 2


def test_codes_are_predicted_few_at_once_if_the_predictor_needs_much_memory(monkeypatch):
    model, images, sizes = small_model(), random_images(7, 2, 9, 7), []
    bits, actions = model.encode(images), np.arange(7) % 3
    expected = model.predict(bits, actions)
    model.predictor.numbers_per_code = 100
    monkeypatch.setattr(world_model, "NUMBERS_AT_ONCE", 300)
    model.predictor.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    assert torch.equal(model.predict(bits, actions), expected)
    assert sizes == [3, 3, 1]


def test_imagination_repeats_prediction():
    model = small_model()
    bits, actions = model.encode(random_images(4, 2, 9, 7)), np.array([[0, 1, 2], [2, 1, 0], [1, 1, 1], [0, 0, 2]])
    path = model.imagine(bits, actions)
    for step in range(3):
        bits = model.predict(bits, actions[:, step])
        assert torch.equal(path[:, step], bits)


def test_using_a_model_leaves_its_mode_and_statistics_alone():
    model = build_model(preset("iceslider/dwmr"), (3, 64, 64), 4, decoder=False).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    bits = model.encode(random_images(3, 3, 64, 64))
    model.predict(bits, np.zeros(3, int))
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not bits.requires_grad


def test_decoded_images_are_bytes_in_the_datas_scale():
    class Grey(torch.nn.Module):
        def forward(self, codes):
            return torch.stack([codes[:, 0] * 2, codes[:, 1] * 100], 1)[:, :, None, None] - 1

    model = WorldModel(
        torch.nn.Identity(),
        torch.nn.Identity(),
        Grey(),
        image_shape=(2, 1, 1),
        n_actions=1,
        bits=2,
        mean=torch.tensor([0.5, 0.5]),
        std=torch.tensor([0.2, 0.2]),
    )
    # 0.5 − 0.2, 0.5 + 0.2, and above 1 clipped.
    assert model.decode(np.array([[False, True], [True, False]])).flatten(1).tolist() == [[76, 255], [178, 76]]


def test_images_are_standardised_by_channel():
    images = np.zeros((4, 2, 1, 1), np.uint8)
    images[:2, 0] = 255
    images[:, 1] = 51
    mean, std = image_statistics(images)
    assert mean.tolist() == pytest.approx([0.5, 0.2])
    assert std.tolist() == pytest.approx([0.5, 1e-3])  # a channel of one colour is not divided by zero
    model = WorldModel(
        torch.nn.Flatten(), torch.nn.Identity(), image_shape=(2, 1, 1), n_actions=1, bits=2, mean=mean, std=std
    )
    standardised = model.normalize(torch.from_numpy(images)).flatten(1)
    assert standardised[:, 0].tolist() == [1, 1, -1, -1]
    assert standardised[:, 1].abs().max() < 1e-4


def test_images_that_are_numbers_already_are_not_changed():
    model = build_model(preset("generic/dwmr"), (1, 4, 4), 2, decoder=False)
    images = torch.full((2, 1, 4, 4), 255.0)
    assert (model.normalize(images) == 1).all()
    assert (images == 255).all()


def test_image_statistics_are_numpys():
    images = random_images(50, 3, 6, 5)
    mean, std = image_statistics(images)
    assert mean.numpy() == pytest.approx((images / 255).mean((0, 2, 3)))
    assert std.numpy() == pytest.approx((images / 255).std((0, 2, 3)))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda m: m.encode(np.zeros((2, 1, 1, 4))),
            r"shape \(N, C, H, W\) = \(N, 1, 1, 4\), got float64",
        ),
        (lambda m: m.encode(np.zeros((2, 1, 4, 1), np.uint8)), r"got uint8 of shape \(2, 1, 4, 1\)"),
        (lambda m: m.encode(np.zeros((1, 1, 4), np.uint8)), r"got uint8 of shape \(1, 1, 4\)"),
        (lambda m: m.encode(np.zeros((0, 1, 1, 4), np.uint8)), r"got uint8 of shape \(0, 1, 1, 4\)"),
        (lambda m: m.predict(np.zeros((2, 3), bool), [0, 0]), r"codes of shape \(N, K\) = \(N, 4\), got \(2, 3\)"),
        (lambda m: m.predict(np.zeros((0, 4), bool), np.zeros(0, int)), r"got \(0, 4\)"),
        (lambda m: m.predict(np.full((2, 4), 0.5), [0, 0]), "Boolean, or numbers 0 and 1"),
        (lambda m: m.predict(np.zeros((2, 4), bool), [0, 2]), r"\[0, 2\), got values from 0 to 2"),
        (lambda m: m.predict(np.zeros((2, 4), bool), [0, -1]), "got values from -1 to 0"),
        (lambda m: m.predict(np.zeros((2, 4), bool), [0.0, 1.0]), "integer actions.*got torch.float64"),
        (lambda m: m.predict(np.zeros((2, 4), bool), [True, False]), "integer actions.*got torch.bool"),
        (lambda m: m.predict(np.zeros((2, 4), bool), [0]), r"\(N,\) with N = 2"),
        (lambda m: m.imagine(np.zeros((2, 4), bool), [0, 1]), r"\(N, T\) with N = 2"),
        (lambda m: m.imagine(np.zeros((2, 4), bool), np.zeros((2, 0), int)), "no actions were given"),
        (lambda m: m.decode(np.zeros((2, 4), bool)), "no decoder"),
    ],
)
def test_bad_input_is_refused(use, message):
    with pytest.raises(InputError, match=message):
        use(ring_model())


@pytest.mark.parametrize("codes", [np.zeros((2, 3), bool), np.zeros((0, 10), bool), np.full((2, 10), 0.5)])
def test_a_decoder_takes_codes_only(codes):
    with pytest.raises(InputError, match="codes"):
        small_model().decode(codes)


def test_weights_are_a_function_of_the_seed_alone():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = small_model(seed=4)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again, other = small_model(seed=4), small_model(seed=5)
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert any(not torch.equal(value, other.state_dict()[name]) for name, value in first.state_dict().items())


def test_a_decoder_does_not_change_the_other_weights():
    with_decoder, without = small_model(decoder=True), small_model(decoder=False)
    assert without.decoder is None
    for name, value in without.state_dict().items():
        assert torch.equal(value, with_decoder.state_dict()[name])


def test_unknown_networks_and_devices():
    with pytest.raises(InputError, match="unknown encoder 'patchy'; did you mean 'patch'"):
        build_model(preset("generic/dwmr", encoder="patchy"), (1, 8, 8), 2, decoder=False)
    with pytest.raises(InputError, match="has a custom encoder: pass it as encoder="):
        build_model(preset("generic/dwmr", encoder="custom"), (1, 8, 8), 2, decoder=False)
    assert resolve_device("cpu").type == "cpu"
    for name in ("tpu", "meta", "cuda:one"):
        with pytest.raises(InputError, match=f"unknown device '{name}'; name auto, cpu, cuda or cuda:N$"):
            resolve_device(name)
    with pytest.raises(InputError, match="device 'cuda:99' cannot be used here"):
        resolve_device("cuda:99")
