"""The C++ kernels: compiled on first use by any C++ compiler, then kept in the cache folder.

Plain C++17 with OpenMP behind C functions, called with ctypes; building takes a few seconds. Without a compiler,
`library()` is None and everything runs on PyTorch's own kernels.
"""

import contextlib
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
KEPT_MEMORY = 512 * 2**20  # bytes

log = logging.getLogger("dwmr")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels, compiled if need be; None if they cannot be built, and the log says why."""
    path = _compiled_path()
    if path is None or not (path.exists() or _build(path)):
        return None
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        log.info("the compiled kernels cannot be loaded: %s", error)
        return None
    whole, address, size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
    signatures: dict[str, tuple[object, list[object]]] = {
        "lanes": (whole, []),
        "chain_saved": (size, [address, whole, whole]),
        "chain_apply": (None, [address, whole, address, whole, address, whole]),
        "chain_learn": (None, [address, whole, address, whole, address, address, whole]),
        "chain_back": (None, [address, whole, address, whole, address, address, address, whole]),
        "features_saved": (size, [address, whole, whole]),
        "features": (None, [address, whole, address, whole, address, address, whole]),
        "features_back": (None, [address, whole, whole, address, address, whole]),
        "coskewness": (ctypes.c_double, [address, whole, whole, address, whole]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, f"dwmr_{name}")
        function.restype, function.argtypes = result, arguments
    _keep_freed_memory()
    return loaded


def _keep_freed_memory() -> None:
    """Let the C library reuse freed memory: taking it page by page from the system again is a tenth of an update.

    Only glibc knows these settings; elsewhere nothing happens."""
    trim_threshold, map_threshold = -1, -3
    with contextlib.suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(trim_threshold, KEPT_MEMORY)
        libc.mallopt(map_threshold, 32 * 2**20)


def _compiled_path() -> Path | None:
    """The compiled file, named by a digest of sources, compiler and processor."""
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
    """The processor's features, because several machines may share a cache folder."""
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
