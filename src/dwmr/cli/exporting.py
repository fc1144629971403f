"""A trained model in other forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dwmr.cli.common import AsJson, Seed, app, example, open_run, print_json, say
from dwmr.errors import unknown
from dwmr.onnx_export import ENCODER, PREDICTOR, export_onnx, require_packages

FORMS = ("onnx", "pddl")
CHECKED = 2000  # images on which an ONNX export is checked


@app.command(
    epilog=example(
        "dwmr export runs/ice --to onnx --out ice-onnx",
    )
)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    to: Annotated[str, typer.Option("--to", help="onnx or pddl.")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist yet.")],
    data: Annotated[Path | None, typer.Option(help="Data folder or .npz; by default the run's benchmark.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write a model in another form: ONNX networks, or a symbolic model in PDDL."""
    if to not in FORMS:
        raise unknown("form", to, FORMS)
    if out.exists():
        raise FileExistsError(f"{out} exists already; remove it or choose another name")
    if to == "onnx":
        _onnx(run, out, data, as_json)


def _onnx(run: Path, out: Path, data: Path | None, as_json: bool) -> None:
    require_packages()
    _, model, _, judged = open_run(run, data, "train", "cpu")
    step = -(-len(judged) // CHECKED)
    checked = export_onnx(model, out, np.asarray(judged.obs[::step]), np.asarray(judged.actions[::step]))
    if as_json:
        print_json({"out": str(out), "files": [ENCODER, PREDICTOR], "checked": checked})
        return
    say(f"{out}: {ENCODER} and {PREDICTOR}, the same {checked['bits']} bits on {checked['images']:,} images and codes")
