"""ONNX files give the model's bits, or are not there."""

import importlib.util

import numpy as np
import pytest

import dwmr
from dwmr.config import Config
from dwmr.errors import ExportFailed
from dwmr.models import onnx_export
from dwmr.models.onnx_export import ENCODER, PREDICTOR, export_onnx
from dwmr.models.world_model import build_model

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(scope="module")
def model():
    return build_model(dwmr.preset("iceslider/dwmr"), (3, 64, 64), 4, decoder=False)


@pytest.fixture(scope="module")
def exported(model, ice, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx") / "out"
    export_onnx(model, folder, ice.obs[:50], ice.actions[:50])
    return folder


@pytest.mark.parametrize("count", [1, 7])
def test_any_runtime_gives_the_same_bits(exported, model, ice_val, count):
    images, actions = np.asarray(ice_val.obs[:count]), np.asarray(ice_val.actions[:count], dtype=np.int64)
    (bits,) = onnxruntime.InferenceSession(exported / ENCODER).run(["bits"], {"images": images})
    assert np.array_equal(bits, model.encode(images).numpy())
    predictor = onnxruntime.InferenceSession(exported / PREDICTOR)
    (after,) = predictor.run(["next_bits"], {"bits": bits, "actions": actions})
    assert np.array_equal(after, model.predict(bits, actions).numpy())


def test_standardised_images_and_an_mlp(tiny, tmp_path):
    model = build_model(Config(bits=16), (1, 8, 8), 3, decoder=False)
    model.mean.fill_(0.3)
    model.std.fill_(0.2)
    export_onnx(model, tmp_path / "out", tiny.obs, tiny.actions)


def test_a_bit_that_differs_leaves_nothing(model, ice, tmp_path, monkeypatch):
    class Contrary(onnxruntime.InferenceSession):
        def run(self, names, inputs):
            return [~answer for answer in super().run(names, inputs)]

    monkeypatch.setattr(onnxruntime, "InferenceSession", Contrary)
    with pytest.raises(ExportFailed, match=r"encoder.onnx: 1920 of 1920 bits differ"):
        export_onnx(model, tmp_path / "out", ice.obs[:10], ice.actions[:10])
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(model, ice, tmp_path, monkeypatch):
    really = importlib.util.find_spec
    monkeypatch.setattr(
        onnx_export.importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else really(name)
    )
    with pytest.raises(dwmr.InputError, match=r"needs onnxruntime; pip install 'dwmr\[onnx\]'"):
        export_onnx(model, tmp_path / "out", ice.obs, ice.actions)
