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
    own = os.environ.get("CXX")
    compiler = next((found for name in ((own,) if own else COMPILERS) if (found := shutil.which(name))), None)
    if compiler is None:
        return None
    try:
        loaded = ctypes.CDLL(str(_compiled(compiler)))
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr.partition("\n")[0])
        log.info("the C++ kernels do not compile here, going on without them: %s", first)
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("the C++ kernels cannot be compiled or loaded here, going on without them: %s", error)
        return None
    loaded.dwmr_chain_plan.restype = ctypes.c_size_t
    loaded.dwmr_coskewness.restype = ctypes.c_double
    _keep_freed_memory()
    return loaded


def _compiled(compiler: str) -> Path:
    """The compiled file, named by a digest of sources, compiler and processor: machines may share a cache folder."""
    # What the compiler defines tells its version and the processor's features.
    macros = _output([compiler, *FLAGS, "-dM", "-E", "-x", "c++", os.devnull])
    sources = sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")])
    parts = [macros, *FLAGS, *(source.read_text() for source in sources)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    path = cache_folder() / "native" / f"kernels-{digest}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            _output([compiler, *FLAGS, *(str(each) for each in sources if each.suffix == ".cpp"), "-o", str(made)])
            os.replace(made, path)
    return path


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def _keep_freed_memory() -> None:
    """Let the C library reuse freed memory: taking it page by page from the system again is a tenth of an update.

    Only glibc knows these settings; elsewhere nothing happens."""
    trim_threshold, map_threshold = -1, -3
    with contextlib.suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(trim_threshold, KEPT_MEMORY)
        libc.mallopt(map_threshold, 32 * 2**20)
