"""The folder of an export, and the command."""

import json
import re
import sys

import numpy as np
import pytest

import dwmr
from dwmr.cli import main
from dwmr.data.collect import collect_world
from dwmr.symbolic import BitRules, SymbolicModel, export_pddl, pddl
from dwmr.symbolic.fitting import Rule
from dwmr.worlds.registry import action_names
from tests.symbolic.exact import ice_encode

FIGURES = {"rules": 9, "pairs": 10, "states": 90.0, "bits": 99.0, "copy": 50.0}


def test_an_export_says_it_all(ice_symbols, ice_levels, tmp_path):
    problem = pddl.problem(ice_symbols.rules, *ice_encode(ice_levels.obs[:2]))
    files = export_pddl(ice_symbols, ice_encode, ice_levels, tmp_path / "out", problem=problem)
    assert files == ["domain.pddl", "fidelity.json", "problem.pddl", "rules.md", "symbols.png"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files
    rules = (tmp_path / "out" / "rules.md").read_text()
    assert "![What cells of each symbol look like](symbols.png)" in rules
    assert "→ 001 if the nearest cell below with 010 or 001 has 001, and the cell above is" in rules
    assert re.search(r"## On up\n- \d{3} → \d{3} if ", rules)
    assert json.loads((tmp_path / "out" / "fidelity.json").read_text()) == ice_symbols.fidelity
    assert (tmp_path / "out" / "symbols.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FileExistsError):
        export_pddl(ice_symbols, ice_encode, ice_levels, tmp_path / "out")


def test_rules_of_bits_are_listed(tiny, tmp_path):
    rules = [Rule(0, 1, ((1, True),), 1234, 5, bit=0), Rule(1, 0, (), 4, 0, bit=1)]
    model = SymbolicModel(BitRules(3, [rules, rules, []]), FIGURES, action_names(None, 3))
    assert "symbols.png" not in export_pddl(model, lambda images: images, tiny, tmp_path / "out")
    text = (tmp_path / "out" / "rules.md").read_text()
    assert "- bit 0 flips when bit 0 is off and bit 1 is on (1,234 cases, wrong in 5)\n" in text
    assert "## On action-1\n- bit 0" in text
    assert "- bit 1 flips when bit 1 is on (4 cases)\n\n## On action-2\n- nothing changes\n" in text


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An untrained network in a run folder, and its data."""
    folder = tmp_path_factory.mktemp("export")
    collect_world("iceslider", folder / "data", transitions=400)
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
    status, out, err = export("--to", "pddl", "--out", tmp_path / "out", "--task", 54, "--json")
    assert (status, err) == (0, "")
    assert "(problem level-2054)" in (tmp_path / "out" / "problem.pddl").read_text()
    told = json.loads(out)
    assert {"domain.pddl", "problem.pddl", "rules.md", "fidelity.json"} <= set(told["files"])
    assert told["problem"] == "level 2054, kind min_solution_8"
    assert told["fidelity"]["pairs"] > 0


def test_the_command_takes_images(export, run, tmp_path):
    splits = dwmr.load_splits(run / "data")
    np.save(tmp_path / "now.npy", splits.test.obs[0])
    np.save(tmp_path / "then.npy", splits.test.next_obs[3])
    images = ["--start", tmp_path / "now.npy", "--goal", tmp_path / "then.npy"]
    status, out, _ = export("--to", "pddl", "--out", tmp_path / "out", *images)
    assert status == 0
    assert "rules; they match the predictor's next code in" in out
    assert (tmp_path / "out" / "problem.pddl").read_text().startswith("(define (problem problem)")


def test_the_command_exports_onnx(export, tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    status, out, _ = export("--to", "onnx", "--out", tmp_path / "out")
    assert status == 0
    assert "encoder.onnx and predictor.onnx; they give the model's bits on 400 images" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "pdf"], "unknown target 'pdf'; did you mean 'pddl'?"),
        (["--to", "pddl", "--start", "a.png"], "name a problem by --task, or by --start and --goal together"),
        (["--to", "onnx", "--task", "0"], "--task cannot be used with --to onnx"),
        (["--to", "onnx", "--start", "a.png", "--seed", "1"], "--start, --seed cannot be used with --to onnx"),
        (["--to", "pddl", "--task", "100"], "--task must be between 0 and 99, the tasks of iceslider, got 100"),
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
