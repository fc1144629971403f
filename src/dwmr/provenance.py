"""Where a result came from: the machine, the versions and the code."""

import ast
import hashlib
import os
import platform
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch

PACKAGE = Path(__file__).parent
TRAINING_AND_EVALUATION = ("dwmr.training.trainer", "dwmr.evaluation.evaluate")  # what the figures of a run depend on
WITHOUT_FIGURES = ("dwmr.errors", "dwmr.files", "dwmr.presets", "dwmr.progress", "dwmr.version")  # no effect on figures


def describe_machine(device: torch.device) -> str:
    """Processor or GPU, number of CPU cores, and the versions of Python and torch."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} CPU cores, Python {platform.python_version()}, torch {torch.__version__}"


def describe_code() -> dict[str, str]:
    """Versions, and the digest of the code that trains and evaluates."""
    from dwmr.version import __version__

    versions = {"dwmr": __version__, "torch": torch.__version__, "numpy": np.__version__}
    return versions | {"digest": code_digest()}


@cache
def code_digest(roots: Sequence[str] = TRAINING_AND_EVALUATION, package: Path = PACKAGE) -> str:
    """A short digest of some modules of the package and of everything in it that they import.

    Only syntax trees count: comments, docstrings and formatting do not change the digest. C++ kernels count as a whole
    as soon as one of the modules lies in ``ops``.
    """
    digest, modules = hashlib.sha256(), _imported(roots, package)
    for name, path in sorted(modules.items()):
        digest.update(f"{name}\0{_code_of(path)}\0".encode())
    if any(path.parent.name == "ops" for path in modules.values()):
        for path in sorted(package.rglob("ops/native/*.[ch]*")):
            digest.update(re.sub(r"//.*|\s+", " ", path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:12]


def _imported(roots: Sequence[str], package: Path) -> dict[str, Path]:
    """The modules named by ``roots`` and all that they import, by name."""
    found: dict[str, Path] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        path = _file_of(name, package)
        if path is None or name in found or name in WITHOUT_FIGURES:
            continue
        found[name] = path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def _file_of(module: str, package: Path) -> Path | None:
    """The file of a module of the package. The package itself is left out: it imports everything."""
    path = package.parent.joinpath(*module.split("."))
    files = [path.with_suffix(".py"), path / "__init__.py"] if package in path.parents else []
    return next((file for file in files if file.is_file()), None)


def _code_of(path: Path) -> str:
    """The syntax tree of a file without docstrings, as text that is the same under every version of Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[1:] if ast.get_docstring(node) else node.body
    return _text_of(tree)


def _text_of(node: object) -> str:
    """`ast.dump` without empty fields, which differ between versions of Python."""
    if isinstance(node, list):
        return f"[{','.join(map(_text_of, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [f"{name}={_text_of(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
    return f"{type(node).__name__}({','.join(fields)})"
