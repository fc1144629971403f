"""Encoder and predictor as ONNX files, which run without this package.

encoder.onnx    ``images`` uint8 (N, C, H, W)             -> ``bits`` bool (N, K), ``logits`` (N, K)
predictor.onnx  ``bits`` bool (N, K), ``actions`` int64 (N,)  -> ``next_bits`` bool (N, K), ``logits`` (N, K)

N may be any number. The files scale the pixels and threshold the bits.
"""

import copy
import importlib.util
import logging
import warnings
from collections.abc import Callable
from pathlib import Path

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


class _Network(nn.Module):
    """A model, and how it computes logits from the inputs of a file."""

    def __init__(self, model: WorldModel, logits: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.logits = model, logits

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.logits(*inputs)
        return threshold(torch.sigmoid(logits)).bool(), logits


def export_onnx(
    model: WorldModel, folder: str | Path, images: np.ndarray, actions: np.ndarray, *, overwrite: bool = False
) -> None:
    """Write both files into a new folder, if onnxruntime computes exactly the model's bits.

    They are compared on images uint8 (N, C, H, W), their codes and actions (N,). If a bit differs, ExportFailed is
    raised and nothing is written.
    """
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise InputError(f"exporting to ONNX needs {', '.join(missing)}; pip install 'dwmr[onnx]'")
    if len(images) < 2 or len(images) != len(actions):
        raise InputError(f"the check needs two or more images and as many actions, got {len(images)}, {len(actions)}")
    model = copy.deepcopy(model).cpu().eval()
    bits = model.encode(images)
    next_bits = model.predict(bits, actions)
    pixels = {"images": torch.from_numpy(np.array(images))}
    codes = {"bits": bits, "actions": torch.from_numpy(np.array(actions, dtype=np.int64))}
    encoder = _Network(model, lambda images: model.encoder(model.normalize(images)))
    predictor = _Network(model, lambda bits, actions: model.predictor(bits.to(model.mean), model.one_hot(actions)))
    with atomic_folder(folder, overwrite=overwrite) as fresh:
        _write(encoder, fresh / ENCODER, pixels, "bits", bits)
        _write(predictor, fresh / PREDICTOR, codes, "next_bits", next_bits)


def _write(network: _Network, path: Path, inputs: dict[str, Tensor], output: str, expected: Tensor) -> None:
    """Write a network and compare what its file computes with what is expected: single inputs first, then batches."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # no messages about packages that are not needed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            tuple(tensor[:2] for tensor in inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=[output, "logits"],
            dynamic_shapes=(tuple({0: torch.export.Dim("count")} for _ in inputs),),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wrong = 0
    parts = np.split(np.arange(len(expected)), [1, *range(2, len(expected), COMPARED_AT_ONCE)])
    for part in parts:
        (got,) = session.run([output], {name: tensor[part].numpy() for name, tensor in inputs.items()})
        wrong += int((got != expected[part].numpy()).sum())
    if wrong:
        share = f"{wrong} of {expected.numel()} bits"
        raise ExportFailed(f"{path.name}: {share} differ under onnxruntime; nothing was left")
