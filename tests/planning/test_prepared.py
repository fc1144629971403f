"""A run is prepared for planning once; later calls need neither the data nor any training."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import dwmr
from dwmr import InputError
from dwmr.models.run_folder import checkpoint_digest
from dwmr.planning.heuristics import HeuristicTraining, train_heuristic
from dwmr.planning.prepared import (
    AGENT,
    HEURISTIC,
    PAINTER,
    load_agent,
    load_heuristic,
    load_painter,
    prepare_run,
    save_part,
)
from tests.evaluation.ring import ring_model, ring_transitions


@pytest.fixture
def run(planning_run, tmp_path):
    """A copy of the run that is not prepared yet."""
    folder = tmp_path / "run"
    shutil.copytree(planning_run, folder, ignore=shutil.ignore_patterns("planning"))
    return folder


@pytest.fixture
def ends(images):
    return ("--start", images / "start.png", "--goal", images / "goal.npy", "--seconds", 0.5, "--json")


@pytest.fixture
def prepared(cli, run, ends, planning_data):
    assert cli("plan", run, "--data", planning_data, *ends)[0] == 0
    return run


def figures(out: str) -> dict:
    return {key: value for key, value in json.loads(out).items() if key != "seconds"}


def test_the_second_call_needs_no_data(cli, run, ends, planning_data, tmp_path, monkeypatch):
    data = shutil.copytree(planning_data, tmp_path / "data")
    status, first, _ = cli("plan", run, "--data", data, *ends)
    assert status == 0
    shutil.rmtree(data)
    moved = run.rename(tmp_path / "elsewhere")
    for name in ("cli.plans.load_data", "planning.prepared.prepare_run"):
        monkeypatch.setattr(f"dwmr.{name}", lambda *_, **__: pytest.fail("work was done"))
    status, second, _ = cli("plan", moved, *ends)
    assert status == 0
    assert figures(first) == figures(second)
    status, out, _ = cli("plan", moved, *ends, "--strip", tmp_path / "plan.png")
    assert status == 0
    assert json.loads(out)["drawn_by"] == "a decoder fitted afterwards"
    assert cli("plan-level", moved, "--seconds", 0.1)[0] == 0


def test_a_run_on_own_data_asks_for_it_once(cli, run, ends):
    stored = json.loads((run / "run.json").read_text())
    stored["config"]["benchmark"] = "generic"
    stored["world"] = ""
    (run / "run.json").write_text(json.dumps(stored))
    status, _, err = cli("plan", run, *ends)
    assert status == 2
    assert "'generic' has no data of its own; pass yours with --data PATH" in err


def test_what_was_made_for_another_checkpoint_is_refused(cli, prepared, ends, planning_data, capsys):
    splits = dwmr.load_splits(planning_data)
    config = dwmr.preset("iceslider/dwmr", epochs=2, batch_size=64)
    dwmr.train(config, train=splits.train, val=splits.val, out=prepared, resume=True, progress=False)
    capsys.readouterr()
    status, _, err = cli("plan", prepared, *ends)
    assert (status, err.count("\n")) == (2, 1)
    assert "was made for another checkpoint of this run; remove RUN/planning, and the next plan prepares" in err
    shutil.rmtree(prepared / "planning")
    assert cli("plan", prepared, "--data", planning_data, *ends)[0] == 0
    assert cli("plan", prepared, *ends)[0] == 0


@pytest.mark.parametrize("part", [AGENT, PAINTER])
@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda _: b"", lambda _: b"text"])
def test_a_damaged_file_is_one_clear_line(cli, prepared, ends, tmp_path, part, damage):
    (prepared / part).write_bytes(damage((prepared / part).read_bytes()))
    status, _, err = cli("plan", prepared, *ends, "--strip", tmp_path / "plan.png")
    assert (status, err.count("\n")) == (2, 1)
    assert f"{prepared / part} is damaged" in err
    assert "remove RUN/planning" in err


def test_a_run_with_own_networks_is_prepared_from_python(tmp_path):
    data, model = ring_transitions(episodes=20), ring_model()
    (tmp_path / "checkpoint.safetensors").write_bytes(b"weights")
    assert load_agent(str(tmp_path), model) is None
    learned = prepare_run(str(tmp_path), model, dwmr.Splits(data))
    loaded = load_agent(str(tmp_path), model)
    assert (loaded.radius, loaded.flips, loaded.about) == (learned.radius, learned.flips, learned.about)
    words = learned.encode(data.obs[:5])
    assert torch.equal(loaded.dynamics.successors(words)[0], learned.dynamics.successors(words)[0])
    assert load_painter(tmp_path, model).decode(model.encode(data.obs[:5])).shape == data.obs[:5].shape


def test_a_heuristic_is_stored_with_its_checkpoint(prepared, ice):
    model = dwmr.WorldModel.load(prepared, device="cpu")
    agent = load_agent(prepared, model)
    assert load_heuristic(prepared, model) is None
    setting = HeuristicTraining(updates=2, batch=4, walk=3, width=8)
    network, about = train_heuristic(agent, agent.encode(ice.obs[:20]), setting)
    path = save_part(prepared, HEURISTIC, network.state_dict(), about)
    codes = torch.rand(5, model.bits).round()
    again = load_heuristic(prepared, model)
    assert torch.equal(network(codes, codes.flip(0)), again(codes, codes.flip(0)))
    path.rename(prepared / "heuristic.safetensors")  # where version 0.1 kept it
    assert load_heuristic(prepared, model) is not None
    path.write_bytes((prepared / "heuristic.safetensors").read_bytes()[:50])
    with pytest.raises(InputError, match=r"is damaged .*; train it again with: dwmr train-heuristic RUN --overwrite"):
        load_heuristic(prepared, model)
    shutil.copy(prepared / "heuristic.safetensors", path)
    (prepared / "checkpoint.safetensors").write_bytes(b"other weights")
    with pytest.raises(InputError, match="was made for another checkpoint"):
        load_heuristic(prepared, model)


def test_a_heuristic_of_another_checkpoint_is_refused_by_name(cli, prepared, ends, planning_data):
    assert cli("train-heuristic", prepared, "--data", planning_data, "--updates", 2, "--batch", 4)[0] == 0
    (prepared / AGENT).unlink()
    stored = prepared / "planning" / "heuristic.safetensors"
    stored.write_bytes(stored.read_bytes().replace(checkpoint_digest(prepared).encode(), b"0" * 16))
    status, _, err = cli("plan", prepared, "--data", planning_data, *ends)
    assert (status, err.count("\n")) == (2, 2)
    assert err.startswith(f"preparing {prepared} for planning; this is done once\n")
    assert f"{stored} was made for another checkpoint of this run; train it again with" in err
    assert (
        cli("train-heuristic", prepared, "--data", planning_data, "--updates", 2, "--batch", 4, "--overwrite")[0] == 0
    )
    assert cli("plan", prepared, *ends)[0] == 0
