"""Small networks that a run folder holds beside its model: one safetensors file each, with JSON on it inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from dwmr.errors import InputError
from dwmr.files import atomic_write_bytes


def save_part(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> None:
    """Write the file whole or not at all."""
    on_cpu = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    atomic_write_bytes(path, to_safetensors(on_cpu, {"info": json.dumps(info)}))


def load_part(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The tensors and what was said of them; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            info = json.loads((file.metadata() or {})["info"])
            return {name: file.get_tensor(name) for name in file.keys()}, info  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} is truncated or of another kind: {error}") from error
