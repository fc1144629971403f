"""The world model: encode, predict, imagine, decode. No loss, no optimizer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwmr.config import Config
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError, unknown
from dwmr.models.bits import threshold
from dwmr.models.decoders import DECODERS
from dwmr.models.encoders import ENCODERS, ImageShape
from dwmr.models.predictors import PREDICTORS
from dwmr.models.run_folder import load_weights, read_info, read_tensors
from dwmr.models.symbol_networks import CELL_NETWORKS, parse_layout
from dwmr.models.verdict import Verdict
from dwmr.ops.dispatch import accelerating
from dwmr.seeding import rng

Array = np.ndarray | Tensor

NUMBERS_AT_ONCE = 2**25  # pixels that are encoded or decoded at once, or what codes become inside of the predictor
IMAGES_AT_ONCE = 1024  # the same in images, where more are no faster
CODES_AT_ONCE = 4096  # and in codes

_NETWORKS: dict[str, Mapping[str, Callable[..., nn.Module]]] = {
    "encoder": ENCODERS,
    "predictor": PREDICTORS,
    "decoder": DECODERS,
}
_ROLES = {  # what each network takes and returns
    "encoder": ("images (N, C, H, W)", "logits of shape (N, K)"),
    "predictor": ("codes (N, K) and one-hot actions (N, A)", "logits of shape (N, K)"),
    "decoder": ("codes (N, K)", "images of shape (N, C, H, W)"),
}


class WorldModel(nn.Module):
    """An encoder (images to K bits), a predictor (bits and an action to the next bits), perhaps a decoder.

    ``encode``, ``predict``, ``imagine`` and ``decode`` take whole arrays or tensors, work in chunks without
    gradients and in evaluation mode, and return tensors on the model's device.
    """

    mean: Tensor
    std: Tensor
    verdict: Verdict | None = None

    def __init__(
        self,
        encoder: nn.Module,
        predictor: nn.Module,
        decoder: nn.Module | None = None,
        *,
        image_shape: ImageShape,
        n_actions: int,
        bits: int,
        mean: Tensor | None = None,
        std: Tensor | None = None,
        probe: str = "affine",
        standardize: bool = True,
    ) -> None:
        super().__init__()
        self.standardize = standardize
        self.encoder, self.predictor, self.decoder = encoder, predictor, decoder
        self.image_shape, self.n_actions, self.bits, self.probe = image_shape, n_actions, bits, probe
        channels = image_shape[0]
        self.register_buffer("mean", torch.zeros(channels) if mean is None else mean)
        self.register_buffer("std", torch.ones(channels) if std is None else std)

    @staticmethod
    def load(path: str | Path, device: str = "auto", **modules: nn.Module) -> WorldModel:
        """The model of a run folder, ready for use. Your own networks are passed as in `dwmr.train`:
        ``WorldModel.load("runs/a", encoder=my_encoder)``; their weights are read from the run."""
        info = read_info(path)
        for role in modules:
            if role not in _ROLES:
                raise unknown("network", role, _ROLES)
        model = build_model(info.config, info.image_shape, info.n_actions, decoder=info.decoder, modules=modules)
        if model.bits != info.config.bits:
            raise InputError(f"{path} holds a model of {info.config.bits} bits, and your encoder returns {model.bits}")
        check_outputs(model, modules)
        tensors, _ = read_tensors(path)
        load_weights(model, tensors, "model.", path)
        model.verdict = None if info.verdict is None else Verdict(**info.verdict)
        return model.to(resolve_device(device)).eval()

    @property
    def device(self) -> torch.device:
        return self.mean.device

    def normalize(self, images: Tensor) -> Tensor:
        """uint8 images (N, C, H, W) as floats in [0, 1], less the training mean, over its deviation."""
        if accelerating(images):  # in one pass over the images
            scale, shift = 1 / (255 * self.std), -self.mean / self.std
            if not self.standardize:
                scale, shift = torch.full_like(scale, 1 / 255), torch.zeros_like(shift)
            return torch.addcmul(shift[:, None, None], images, scale[:, None, None])
        scaled = images.to(self.mean.dtype, copy=True).div_(255)
        return scaled.sub_(self.mean[:, None, None]).div_(self.std[:, None, None]) if self.standardize else scaled

    def one_hot(self, actions: Tensor) -> Tensor:
        return F.one_hot(actions.long(), self.n_actions).to(self.mean.dtype)

    def encode(self, images: Array, batch: int | None = None) -> Tensor:
        """uint8 images (N, C, H, W) to bool (N, K)."""
        self._check_images(images)
        most = max(1, NUMBERS_AT_ONCE // math.prod(self.image_shape))
        batch = batch or (most if self.device.type == "cuda" else self._images_at_once())
        return self._in_parts(lambda x: _as_bits(self.encoder(self.normalize(x))), batch, images)

    def predict(self, bits: Array, actions: Array, batch: int | None = None) -> Tensor:
        """bool (N, K) and actions (N,) to the next bool (N, K)."""
        codes = self._check_codes(bits, actions, action_axes=1)
        return self._in_parts(self._next_bits, batch or self._codes_at_once(), *codes)

    def count_right(self, bits: Tensor, actions: Tensor, next_bits: Tensor) -> Tensor:
        """How many of the next codes, and how many of their bits, are predicted correctly: int64 (2,). Nothing is
        checked or read back from the device, so that this can be recorded."""
        right = self._in_parts(self._next_bits, self._codes_at_once(), bits, actions) == next_bits
        return torch.stack([right.all(1).sum(), right.sum()])

    def imagine(self, bits: Array, actions: Array, batch: int | None = None) -> Tensor:
        """bool (N, K) and actions (N, T) to the imagined bool (N, T, K), each step from the last one's bits."""
        codes = self._check_codes(bits, actions, action_axes=2)
        return self._in_parts(self._roll, batch or self._codes_at_once(), *codes)

    def decode(self, bits: Array, batch: int | None = None) -> Tensor:
        """bool (N, K) to uint8 images (N, C, H, W); only for models trained with a decoder."""
        decoder = self.decoder
        if decoder is None:
            raise InputError("this world model has no decoder")

        def draw(codes: Tensor) -> Tensor:
            pixels = decoder(codes.to(self.mean.dtype)) * self.std[:, None, None] + self.mean[:, None, None]
            return (pixels.clamp(0, 1) * 255).round().to(torch.uint8)

        return self._in_parts(draw, batch or self._images_at_once(), self._check_bits(bits))

    def _images_at_once(self) -> int:
        """A power of two, as the CPU's kernels take whole vectors of images."""
        most = max(1, NUMBERS_AT_ONCE // math.prod(self.image_shape))
        return min(IMAGES_AT_ONCE, 2 ** (most.bit_length() - 1))

    def _codes_at_once(self) -> int:
        """Fewer for predictors that need much memory for a code, as their attribute ``numbers_per_code`` says."""
        return max(1, min(CODES_AT_ONCE, NUMBERS_AT_ONCE // getattr(self.predictor, "numbers_per_code", self.bits)))

    def _next_bits(self, bits: Tensor, actions: Tensor) -> Tensor:
        return _as_bits(self.predictor(bits.to(self.mean.dtype), self.one_hot(actions)))

    def _roll(self, bits: Tensor, actions: Tensor) -> Tensor:
        path = [bits]
        for action in actions.unbind(1):
            path.append(self._next_bits(path[-1], action))
        return torch.stack(path[1:], dim=1)

    @torch.no_grad()
    def _in_parts(self, function: Callable[..., Tensor], batch: int, *arrays: Array) -> Tensor:
        """A function of these arrays, part by part, in evaluation mode and without gradients."""
        was_training = self.training
        self.eval()
        try:
            starts = range(0, len(arrays[0]), batch)
            parts = ([_as_tensor(array[i : i + batch]).to(self.device) for array in arrays] for i in starts)
            return torch.cat([function(*part) for part in parts])
        finally:
            self.train(was_training)

    def check_fits(self, data: Transitions, name: str = "the data") -> None:
        """Refuse data with other images, or another number of actions."""
        if (data.image_shape, data.n_actions) != (self.image_shape, self.n_actions):
            raise InputError(
                f"the model expects images {self.image_shape} and {self.n_actions} actions, but {name} has "
                f"{data.image_shape} and {data.n_actions}"
            )

    def _check_images(self, images: Array) -> None:
        if not isinstance(images, np.ndarray | Tensor):
            raise InputError(f"expected images as an array or a tensor, got {type(images).__name__}")
        kind = str(images.dtype).removeprefix("torch.")
        if kind != "uint8" or tuple(images.shape[1:]) != tuple(self.image_shape) or len(images) == 0:
            wanted = f"uint8 images of shape (N, C, H, W) = (N, {', '.join(map(str, self.image_shape))})"
            raise InputError(f"expected {wanted}, got {kind} of shape {tuple(images.shape)}")

    def _check_bits(self, bits: Array) -> Tensor:
        bits = _as_tensor(bits)
        if bits.ndim != 2 or bits.shape[1] != self.bits or len(bits) == 0:
            raise InputError(f"expected codes of shape (N, K) = (N, {self.bits}), got {tuple(bits.shape)}")
        if bits.dtype != torch.bool and not bool(((bits == 0) | (bits == 1)).all()):
            raise InputError("codes must be Boolean, or numbers 0 and 1")
        return bits.bool()

    def _check_codes(self, bits: Array, actions: Array, action_axes: int) -> tuple[Tensor, Tensor]:
        bits, actions = self._check_bits(bits), _as_tensor(actions)
        whole = not actions.is_floating_point() and actions.dtype != torch.bool
        if actions.ndim != action_axes or len(actions) != len(bits) or not whole:
            wanted = f"integer actions of shape {'(N,)' if action_axes == 1 else '(N, T)'} with N = {len(bits)}"
            raise InputError(f"expected {wanted}, got {actions.dtype} of shape {tuple(actions.shape)}")
        if actions.numel() == 0:
            raise InputError("no actions were given")
        actions = actions.long()
        low, high = int(actions.min()), int(actions.max())
        if low < 0 or high >= self.n_actions:
            raise InputError(f"actions must lie in [0, {self.n_actions}), got values from {low} to {high}")
        return bits, actions


def resolve_device(name: str) -> torch.device:
    """``auto`` is the first CUDA device if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"(cpu|cuda)(:[0-9]+)?", str(name)):
        raise InputError(f"unknown device {name!r}; name auto, cpu, cuda or cuda:N")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "cuda" and device.index is not None:
            torch.cuda.set_device(device)  # where Triton's kernels and recorded steps run
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return device


def _as_bits(logits: Tensor) -> Tensor:
    return threshold(torch.sigmoid(logits)).bool()


def _as_tensor(array: Array) -> Tensor:
    # A memory map is read-only, which torch does not know; a copy is contiguous, writable and off the disk.
    return array if isinstance(array, Tensor) else torch.from_numpy(np.array(array))


def image_statistics(images: np.ndarray) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel on the [0, 1] scale, exactly, from counts of byte values."""
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(images.shape[1]):
        parts = (images[start : start + 4096, channel].ravel() for start in range(0, len(images), 4096))
        counts = np.sum([_count_bytes(part) for part in parts], axis=0)
        mean = counts @ values / counts.sum()
        means.append(mean)
        deviations.append(max(float(np.sqrt(counts @ (values - mean) ** 2 / counts.sum())), 1e-3))
    return torch.tensor(means, dtype=torch.float32), torch.tensor(deviations, dtype=torch.float32)


def _count_bytes(values: np.ndarray) -> np.ndarray:
    """How often each byte occurs, (256,). Two are counted at a time, which is twice as fast."""
    pairs = np.bincount(values[: len(values) // 2 * 2].view(np.uint16), minlength=2**16).reshape(256, 256)
    return pairs.sum(0) + pairs.sum(1) + np.bincount(values[len(values) // 2 * 2 :], minlength=256)


def check_network(role: str, name: str) -> None:
    """Refuse a name that no network in this role has."""
    names = [*_NETWORKS[role], *CELL_NETWORKS[role]]
    if name not in names:
        raise unknown(role, name, names)


def build_model(
    config: Config,
    image_shape: ImageShape,
    n_actions: int,
    *,
    decoder: bool,
    seed: int = 0,
    modules: Mapping[str, nn.Module | Callable[[], nn.Module]] | None = None,
) -> WorldModel:
    """A fresh world model. Its weights depend on the seed alone, not on the device or on global random state.

    ``modules`` may hold your own networks under "encoder", "predictor" and "decoder", or functions that make them. Your
    own encoder decides how many bits the model has.
    """
    given = dict(modules or {})

    def network(role: str, *sizes: int) -> nn.Module:
        name = getattr(config, role)
        if role in given:
            own = given[role]
            return own if isinstance(own, nn.Module) else own()
        if name == "custom":
            raise InputError(f"this model has a custom {role}: pass it as {role}=…")
        check_network(role, name)
        if name in CELL_NETWORKS[role]:
            return CELL_NETWORKS[role][name](image_shape, *sizes, parse_layout(config.cells), config.symbols)
        return _NETWORKS[role][name](image_shape, *sizes)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "weights").integers(2**63)))
        encoder = network("encoder", config.bits)
        bits = _output_shape("encoder", encoder, image_shape)[1] if "encoder" in given else config.bits
        return WorldModel(
            encoder,
            network("predictor", bits, n_actions),
            network("decoder", bits) if decoder else None,
            image_shape=image_shape,
            n_actions=n_actions,
            bits=bits,
            probe=config.probe,
            standardize=config.standardize,
        )


def check_outputs(model: WorldModel, roles: Collection[str]) -> None:
    """Try the networks in these roles on zeros, and refuse those that return something of another shape than needed."""
    if "predictor" in roles:
        _output_shape("predictor", model.predictor, (model.bits,), (model.n_actions,), expected=(model.bits,))
    if "decoder" in roles and model.decoder is not None:
        _output_shape("decoder", model.decoder, (model.bits,), expected=model.image_shape)


def _output_shape(
    role: str, network: nn.Module, *inputs: tuple[int, ...], expected: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """The shape of what a network returns for two inputs, whose shapes are given without N; nothing changes."""
    takes, returns = _ROLES[role]
    device = next(network.parameters(), torch.empty(0)).device
    given = [torch.zeros(2, *shape, device=device) for shape in inputs]
    training = network.training
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            output = network.eval()(*given)
    except Exception as error:  # whatever a network of the user's raises
        shapes = " and ".join(str(tuple(each.shape)) for each in given)
        reason = " ".join(str(error).split())
        raise InputError(f"the {role} cannot take {takes}, here {shapes}: {reason}") from error
    finally:
        network.train(training)
    if not isinstance(output, Tensor):
        raise InputError(f"the {role} must return {returns}, got {type(output).__name__}")
    shape = tuple(output.shape)
    if len(shape) != 2 or shape[0] != 2 if expected is None else shape != (2, *expected):
        needed = f" = {(2, *expected)}" if expected else ""
        raise InputError(f"the {role} must return {returns}{needed}, got {shape} for N = 2")
    return shape
