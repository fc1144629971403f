"""The C++ kernels of the CPU path: compiled on first use by whatever C++ compiler there is, kept in the cache folder.

Plain C++17 with OpenMP behind C functions, called with ctypes: no headers but the compiler's own, a few seconds to
build. Without a compiler, or on one that refuses, `library` is None and everything runs on torch's kernels.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from dwmr.files import cache_folder

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fPIC", "-shared")
SOURCES = Path(__file__).parent

log = logging.getLogger("dwmr")


_ADDRESS = ctypes.c_void_p


class Convolution(ctypes.Structure):
    """A convolution of images (inputs, height, width), as `convolution.h` has it."""

    _fields_ = [
        (name, ctypes.c_int)
        for name in ("inputs", "outputs", "height", "width", "kernel", "stride", "dilation", "padding")
    ]


class Images(ctypes.Structure):
    """Float images, or bytes with a scale and shift a channel, as `lanes.h` has it."""

    _fields_ = [(name, _ADDRESS) for name in ("numbers", "bytes", "scale", "shift")]


class Block(ctypes.Structure):
    """Convolution, norm of each image, ReLU, perhaps pooling, as `features.cpp` has it."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("inputs", "outputs", "height", "width", "pooled")),
        ("epsilon", ctypes.c_float),
        *((name, _ADDRESS) for name in ("weight", "scale", "shift", "dweight", "dscale", "dshift")),
    ]


class Step(ctypes.Structure):
    """Convolution, perhaps batch norm with a residual and ReLU, as `chain.cpp` has it."""

    _fields_ = [
        ("conv", Convolution),
        *((name, ctypes.c_int) for name in ("normed", "residual")),
        ("epsilon", ctypes.c_float),
        *((name, _ADDRESS) for name in ("weight", "bias", "scale", "shift", "running_mean", "running_variance")),
        *((name, _ADDRESS) for name in ("dweight", "dbias", "dscale", "dshift", "mean", "variance")),
    ]


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels, compiled if they were not yet; None where they cannot be had, and the log says why."""
    path = _compiled_path()
    if path is None or not (path.exists() or _build(path)):
        return None
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        log.info("the compiled kernels cannot be loaded: %s", error)
        return None
    whole, address, size = ctypes.c_int, _ADDRESS, ctypes.c_size_t
    signatures: dict[str, tuple[object, list[object]]] = {
        "lanes": (whole, []),
        "chain_saved": (size, [address, whole, whole]),
        "chain_apply": (None, [address, whole, address, whole, address, whole]),
        "chain_learn": (None, [address, whole, address, whole, address, address, whole]),
        "chain_back": (None, [address, whole, address, whole, address, address, address, whole]),
        "features_saved": (size, [address, whole, whole]),
        "features": (None, [address, whole, address, whole, whole, address, address, whole]),
        "features_back": (None, [address, whole, whole, address, address, whole]),
        "coskewness": (ctypes.c_double, [address, whole, whole, address, whole]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, f"dwmr_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


def _compiled_path() -> Path | None:
    """Where the kernels lie once compiled: the name follows from the sources, the compiler and the processor."""
    compiler = _compiler()
    if compiler is None:
        return None
    about = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    parts = [about, platform.machine(), _processor(), *FLAGS]
    parts += [source.read_text() for source in sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")])]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return cache_folder() / "native" / f"kernels-{digest}.so"


def _compiler() -> str | None:
    own = os.environ.get("CXX")
    return next((found for name in ((own,) if own else COMPILERS) if (found := shutil.which(name))), None)


def _processor() -> str:
    """What the processor can do: a cache folder may be shared by several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _build(path: Path) -> bool:
    compiler = _compiler()
    assert compiler is not None
    sources = [str(source) for source in sorted(SOURCES.glob("*.cpp"))]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            subprocess.run(
                [compiler, *FLAGS, *sources, "-o", str(made)], capture_output=True, text=True, check=True, timeout=300
            )
            os.replace(made, path)
    except subprocess.CalledProcessError as error:
        log.info("the C++ kernels do not compile here, going on without them: %s", _first_error(error.stderr))
        return False
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("the C++ kernels cannot be compiled here, going on without them: %s", error)
        return False
    return True


def _first_error(text: str) -> str:
    return next((line for line in text.splitlines() if "error" in line), text.strip().partition("\n")[0])
