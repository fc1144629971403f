"""The library needs torch, NumPy and safetensors alone."""

import os
import subprocess
import sys
from pathlib import Path

import dwmr

SOURCE = str(Path(dwmr.__file__).parents[1])
OPTIONAL = ("gymnasium", "rich", "typer", "matplotlib", "sklearn", "optuna", "onnxruntime", "PIL")


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_that_is_optional():
    script = f"import sys, dwmr; print(sorted(set(sys.modules) & set({OPTIONAL!r})))"
    assert run(script) == "[]\n"


WITHOUT = f"""
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec

OPTIONAL = {OPTIONAL!r}
really_find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in OPTIONAL else really_find(name, *rest)
assert not any(find_spec(name) for name in OPTIONAL)

import numpy as np
import dwmr

generator = np.random.default_rng(0)
images = generator.integers(256, size=(2, 64, 3, 12, 10)).astype(np.uint8)
data = dwmr.Transitions(images[0], generator.integers(5, size=64), images[1], n_actions=5)
config = dwmr.preset("generic/dwmr", bits=16, epochs=1, batch_size=32)
model = dwmr.train(config, train=data, val=data).model
bits = model.encode(images[0])
nxt = model.predict(bits, data.actions)
path = model.imagine(bits, np.zeros((64, 3), int))
report = dwmr.evaluate(model, train=data, test=data)
print(bits.shape, nxt.shape, path.shape, report["codes"]["bits"])
"""


def test_it_works_without_anything_that_is_optional():
    assert run(WITHOUT) == "torch.Size([64, 16]) torch.Size([64, 16]) torch.Size([64, 3, 16]) 16\n"
