"""The examples of the documentation run: the README, the tutorial, and the snippets of the guides, on tiny data."""

import functools
import re
import shlex

import numpy as np
import pytest

import dwmr
from tests.documents import ROOT, blocks


@pytest.fixture
def one_epoch(monkeypatch):
    """Presets with one epoch, so that an example takes seconds."""
    monkeypatch.setattr(dwmr, "preset", functools.partial(dwmr.preset, epochs=1))


def snippets(page: str, containing: str) -> str:
    (found,) = (block for block in blocks(ROOT / page, "python") if containing in block)
    return found


def dots(count: int, side: int = 16) -> dwmr.Transitions:
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (2, count, 1, side, side)).astype(np.uint8)
    return dwmr.Transitions(images[0], generator.integers(0, 4, count), images[1], n_actions=4)


def test_the_readme(one_epoch, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    (example,) = blocks(ROOT / "README.md", "python")
    exec(example, names)
    assert names["bits"].shape == (2000, 16)
    assert names["future"].shape == (1, 3, 16)
    assert len(capsys.readouterr().out) > 20


def test_your_own_data(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    t = dots(20)
    names = {"obs": t.obs, "actions": t.actions, "next_obs": t.next_obs}
    exec(snippets("docs/howto/your-own-data.md", 'data.save("mine.npz")'), names)
    assert len(dwmr.load_transitions("mine.npz")) == 20
    labels = {"agent": np.arange(20), "walls": np.ones((20, 4, 4), np.int64)}
    names |= labels | {f"next_{name}": values for name, values in labels.items()}
    exec(snippets("docs/howto/your-own-data.md", "action_names"), names)
    assert names["data"].action_names is not None
    exec(snippets("docs/howto/your-own-data.md", 'val.save("mine/val")'), {"train": t, "val": t, "test": t})
    assert dwmr.load_splits("mine").val is not None


def test_the_gymnasium_environment():
    pytest.importorskip("gymnasium")
    names: dict = {}
    exec(snippets("docs/howto/your-own-data.md", "gymnasium.make"), names)
    assert names["obs"].dtype == np.uint8
    assert "state" in names["info"]


def test_your_own_network_and_loss(one_epoch, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict = {"data": dots(300)}
    exec(snippets("docs/howto/compare-methods.md", "def encoder"), names)
    assert names["model"].encode(names["data"].obs).shape == (300, 32)
    exec(snippets("docs/howto/compare-methods.md", "few_ones"), names)


def test_the_losses():
    exec(snippets("docs/reference/python.md", "losses"), {})


@pytest.fixture(scope="module")
def ice_model(tmp_path_factory):
    from dwmr.data.collect import make_transitions

    train = make_transitions("iceslider", "train", 400)
    run = tmp_path_factory.mktemp("docs") / "run"
    dwmr.train(dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64), train=train, out=run)
    return dwmr.WorldModel.load(run), train


def test_a_certificate(ice_model):
    model, train = ice_model
    names = {"dwmr": dwmr, "encode": model.encode, "predict": model.predict, "transitions": train}
    exec(snippets("docs/howto/check-trust.md", "dwmr.certify"), names)
    assert names["cert"]["summary"]


def test_a_plan(ice_model):
    model, train = ice_model
    names = {"model": model, "train": train, "val": train, "image": train.obs[0], "goal_image": train.next_obs[0]}
    exec(snippets("docs/howto/plan.md", "prepare_agent"), names)
    assert names["plan"].outcome in ("solved", "exhausted", "out of budget")


def test_symbols(ice_model):
    model, train = ice_model
    names = {"model": model, "train": train, "test": train, "codes": model.encode(train.obs).numpy()}
    exec(snippets("docs/howto/export-symbols.md", "learn_symbols"), names | {"actions": train.actions})


SHORTER = {"collect": ["--transitions", "800"], "train": ["--set", "batch_size=64"], "certify": ["--levels", "1"]}


def test_the_tutorial(cli, monkeypatch, tmp_path):
    """Every command and snippet in order; --set epochs=8 becomes one epoch."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    ran = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(block, {})
        for command in re.findall(r"^\$ dwmr (.*)$", block, flags=re.MULTILINE) if not language else ():
            name, *words = shlex.split(command.replace("epochs=8", "epochs=1"))
            status, _, err = cli(name, *words, *SHORTER.get(name, []))
            assert status == 0, f"{command}: {err}"
            ran.append(name)
    assert ran == ["collect", "train", "evaluate", "certify", "plan", "plan-level", "export"]
