"""The folder of an export, and the command."""

import json
import sys

import numpy as np
import pytest

import dwmr
from dwmr.cli import main
from dwmr.data.collect import collect_world
from dwmr.symbolic import BitRules, Problem, SymbolicModel, export_pddl, fast_downward
from dwmr.symbolic.fitting import Rule
from dwmr.symbolic.saliency import boxes, influence
from dwmr.worlds.registry import action_names
from tests.symbolic.exact import ICE_LAYOUT, ice_encode

FIGURES = {"pairs": 10, "states": 90.0, "bits": 99.0, "copy": 50.0}


def test_an_export_says_it_all(ice_symbols, ice_levels, tmp_path):
    problem = Problem.of_world("iceslider", 2000)
    files = export_pddl(ice_symbols, ice_encode, ice_levels, tmp_path / "out", problem=problem)
    assert files == ["domain.pddl", "fidelity.json", "problem.pddl", "rules.md", "symbols.png"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files
    rules = (tmp_path / "out" / "rules.md").read_text()
    assert "| 010 | never changes |" in rules
    assert "becomes 001 when the nearest 010 or 001 down is 001 and the next cell up is" in rules
    assert "- flips on up when the cell is 101 and " in rules
    assert json.loads((tmp_path / "out" / "fidelity.json").read_text()) == ice_symbols.fidelity
    assert (tmp_path / "out" / "symbols.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FileExistsError):
        export_pddl(ice_symbols, ice_encode, ice_levels, tmp_path / "out")


def corners(images):
    """Two bits: whether the left upper and the right lower quarter are bright; one that nothing changes."""
    pixels = np.asarray(images)[:, 0].astype(float)
    return np.stack(
        [pixels[:, :4, :4].mean((1, 2)) > 127, pixels[:, 4:, 4:].mean((1, 2)) > 127, pixels[:, 0, 0] < 0], 1
    )


def test_bits_are_traced_to_their_pixels(tiny):
    shares = influence(corners, tiny.obs, pieces=4)
    assert boxes(shares, 8, 8) == [(0, 4, 0, 4), (4, 8, 4, 8), None]
    assert ICE_LAYOUT.box(64 + 17, 64, 64) == (16, 24, 8, 16)


def test_bits_are_listed_with_their_pixels(tiny, tmp_path):
    many = [Rule(0, 1, ((1, True),), 9 - index, index) for index in range(8)]
    rules = BitRules([[many, [Rule(1, 0, (), 4, 0)], []]] * 3)
    model = SymbolicModel(rules, FIGURES, action_names(None, 3))
    assert "bits.png" in export_pddl(model, corners, tiny, tmp_path / "out")
    text = (tmp_path / "out" / "rules.md").read_text()
    assert "## Bit 0\ndepends on pixels in rows 0–3, columns 0–3\n" in text
    assert "- flips on action-0 when it is off and bit 1 is on (9 cases, wrong in 0)" in text
    assert "- flips on action-2 by 2 more rules" in text
    assert "## Bit 2\ndepends on no pixels that could be found\n\n- never flips" in text


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An untrained network in a run folder, and its data."""
    folder = tmp_path_factory.mktemp("export")
    collect_world("iceslider", folder / "data", transitions=400, progress=False)
    splits = dwmr.load_splits(folder / "data")
    dwmr.train(dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64), train=splits.train, out=folder / "run")
    return folder


@pytest.fixture
def export(run, monkeypatch, capsys):
    def call(*words):
        command = ["dwmr", "export", str(run / "run"), "--data", str(run / "data"), *map(str, words)]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return call


def test_the_command_exports_pddl(export, tmp_path):
    status, out, err = export("--to", "pddl", "--out", tmp_path / "out", "--level", 54, "--json")
    assert (status, err) == (0, "")
    assert "(problem level-2054)" in (tmp_path / "out" / "problem.pddl").read_text()
    told = json.loads(out)
    assert {"domain.pddl", "problem.pddl", "rules.md", "fidelity.json"} <= set(told["files"])
    assert told["problem"] == "level 2054, longer than 8"
    assert told["fidelity"]["pairs"] > 0
    assert told["solution"] is None


def test_the_command_takes_images(export, run, tmp_path):
    splits = dwmr.load_splits(run / "data")
    np.save(tmp_path / "now.npy", splits.test.obs[0])
    np.save(tmp_path / "then.npy", splits.test.next_obs[3])
    images = ["--start", tmp_path / "now.npy", "--goal", tmp_path / "then.npy"]
    status, out, _ = export("--to", "pddl", "--out", tmp_path / "out", *images)
    assert status == 0
    assert "rules; they give the predictor's next code in" in out
    assert (tmp_path / "out" / "problem.pddl").read_text().startswith("(define (problem problem)")


def test_the_command_exports_onnx(export, tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    status, out, _ = export("--to", "onnx", "--out", tmp_path / "out")
    assert status == 0
    assert "encoder.onnx and predictor.onnx, the same 192 bits on 400 images" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "pdf"], "unknown target 'pdf'; did you mean 'pddl'?"),
        (["--to", "pddl", "--start", "a.png"], "name a problem by --level, or by --start and --goal together"),
        (["--to", "onnx", "--level", "0", "--solve"], "--level, --solve cannot be used with --to onnx"),
        (["--to", "onnx", "--start", "a.png", "--seed", "1"], "--start, --seed cannot be used with --to onnx"),
        (["--to", "pddl", "--solve"], "--solve needs a problem"),
        (["--to", "pddl", "--level", "100"], "--level must be between 0 and 99, the tasks of iceslider, got 100"),
        (["--to", "pddl", "--start", "a.png", "--goal", "b.png"], "a.png does not exist"),
    ],
)
def test_the_command_refuses_in_one_line(export, tmp_path, words, message):
    status, _, err = export("--out", tmp_path / "out", *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_images_of_another_size(export, tmp_path):
    np.save(tmp_path / "small.npy", np.zeros((3, 32, 32), np.uint8))
    images = ["--start", tmp_path / "small.npy", "--goal", tmp_path / "small.npy"]
    status, _, err = export("--to", "pddl", "--out", tmp_path / "out", *images)
    assert status == 2
    assert "uint8 of shape (3, 32, 32), the run takes uint8 of shape (3, 64, 64)" in err


def test_the_command_says_that_it_solves_and_when_it_gives_up(export, tmp_path, monkeypatch):
    (tmp_path / "planner.py").write_text("raise SystemExit(23)  # out of time\n")
    monkeypatch.setenv(fast_downward.VARIABLE, str(tmp_path / "planner.py"))
    status, out, err = export("--to", "pddl", "--out", tmp_path / "out", "--level", 0, "--solve")
    assert status == 0
    assert err == "solving with Fast Downward, at most 60 s …\n"
    assert "Fast Downward: out of budget, no plan found in 0 s" in out


def test_the_command_misses_the_planner_before_any_work(export, tmp_path, monkeypatch):
    monkeypatch.setenv(fast_downward.VARIABLE, "nowhere")
    status, _, err = export("--to", "pddl", "--out", tmp_path / "out", "--level", 0, "--solve")
    assert (status, err) == (2, "error: $DWMR_FAST_DOWNWARD names nowhere, which is no file\n")
