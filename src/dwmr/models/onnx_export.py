"""Encoder and predictor as ONNX files, which run without this package.

encoder.onnx    ``images`` uint8 (N, C, H, W)             -> ``bits`` bool (N, K), ``logits`` (N, K)
predictor.onnx  ``bits`` bool (N, K), ``actions`` int64 (N,)  -> ``next_bits`` bool (N, K), ``logits`` (N, K)

N may be any number. The files scale the pixels and threshold the bits.
"""

from __future__ import annotations

import copy
import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.errors import ExportFailed, InputError
from dwmr.files import atomic_folder
from dwmr.models.bits import threshold
from dwmr.models.world_model import WorldModel

ENCODER, PREDICTOR = "encoder.onnx", "predictor.onnx"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
COMPARED_AT_ONCE = 1024


class _Encoder(nn.Module):
    def __init__(self, model: WorldModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model.encoder(self.model.normalize(images))
        return threshold(torch.sigmoid(logits)).bool(), logits


class _Predictor(nn.Module):
    def __init__(self, model: WorldModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, bits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model.predictor(bits.to(self.model.mean.dtype), self.model.one_hot(actions))
        return threshold(torch.sigmoid(logits)).bool(), logits


def export_onnx(
    model: WorldModel, folder: str | Path, images: np.ndarray, actions: np.ndarray, *, overwrite: bool = False
) -> dict[str, Any]:
    """Write both files into a new folder, if onnxruntime computes exactly the model's bits.

    Args:
        images: uint8 (N, C, H, W), to compare codes.
        actions: integers (N,), to compare the predicted next codes.
        overwrite: replace a folder that exists.

    Returns:
        How many images, codes and bits were compared.

    Raises:
        InputError: a package is missing, or there is nothing to compare.
        ExportFailed: a bit differs; nothing was written.
    """
    require_packages()
    if len(images) < 2 or len(images) != len(actions):
        raise InputError(f"the check needs two or more images and as many actions, got {len(images)}, {len(actions)}")
    model = copy.deepcopy(model).cpu().eval()
    bits = model.encode(images)
    nxt = model.predict(bits, actions)
    pixels = torch.from_numpy(np.array(images[:2]))
    chosen = torch.from_numpy(np.array(actions, dtype=np.int64))
    with atomic_folder(folder, overwrite=overwrite) as fresh:
        _write(_Encoder(model), fresh / ENCODER, {"images": pixels}, "bits")
        _write(_Predictor(model), fresh / PREDICTOR, {"bits": bits[:2], "actions": chosen[:2]}, "next_bits")
        _compare(fresh / ENCODER, {"images": np.asarray(images)}, bits.numpy())
        _compare(fresh / PREDICTOR, {"bits": bits.numpy(), "actions": chosen.numpy()}, nxt.numpy())
    return {"images": len(images), "codes": len(images), "bits": model.bits}


def require_packages() -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"exporting to ONNX needs {', '.join(missing)}; pip install 'dwmr[onnx]'")


def _write(module: nn.Module, path: Path, inputs: dict[str, Tensor], output: str) -> None:
    count = torch.export.Dim("count")
    with _quiet():
        torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=[output, "logits"],
            dynamic_shapes={name: {0: count} for name in inputs},
            dynamo=True,
            external_data=False,
            verbose=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporter's messages about itself and about packages that are not needed."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _compare(path: Path, inputs: dict[str, np.ndarray], expected: np.ndarray) -> None:
    """Run single examples first, then batches."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_outputs()[0].name
    wrong = 0
    starts = [0, 1, *range(2, len(expected), COMPARED_AT_ONCE)]
    for start, end in zip(starts, [*starts[1:], len(expected)]):
        (got,) = session.run([name], {key: value[start:end] for key, value in inputs.items()})
        wrong += int((got != expected[start:end]).sum())
    if wrong:
        raise ExportFailed(f"{path.name}: {wrong} of {expected.size} bits differ under onnxruntime; nothing was left")
