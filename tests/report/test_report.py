"""The report page: its sections, what it escapes, and its parts."""

import base64
import dataclasses
import html
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import dwmr
from dwmr.data.collect import make_rollouts, make_transitions
from dwmr.errors import InputError
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.models.run_folder import read_info, read_metrics
from dwmr.report.cards import pick
from dwmr.report.markup import Markup, element, number
from dwmr.report.page import write_report

pytest.importorskip("matplotlib")
from matplotlib.image import imread

PNG = b"\x89PNG\r\n\x1a\n"
LABEL_FREE = {"trust", "training", "transitions", "rollouts"}


@pytest.fixture(scope="module")
def data():
    return make_transitions("iceslider", "train", 400), make_transitions("iceslider", "test", 200)


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """A run folder of each model, trained when first asked for."""
    folder = tmp_path_factory.mktemp("runs")

    def find(model):
        out = folder / model
        if not out.exists():
            config = dwmr.preset(f"iceslider/{model}", epochs=1, batch_size=64, triplets=50)
            dwmr.train(config, train=data[0], val=data[1], out=out, device="cpu", progress=False)
        return out

    return find


def report(run, train, test, path, **options):
    model = dwmr.WorldModel.load(run, device="cpu")
    rollout = make_rollouts("iceslider", 4)
    (evaluation,) = evaluate_many([model], train=train, test=test, rollout=rollout, horizon=10)
    certificate = dwmr.certify(model.encode, model.predict, test)
    parts = {"model": model, "info": read_info(run), "metrics": read_metrics(run), "test": test}
    parts["certificate"] = certificate
    write_report(path, evaluation=evaluation, **(parts | options))
    return path.read_text()


def unlabelled(transitions):
    return dataclasses.replace(transitions, state=None, next_state=None, n_classes=None)


def pngs(page):
    return [base64.b64decode(data) for data in re.findall(r'data:image/png;base64,\s*([^"]+)"', page)]


class Balance(HTMLParser):
    """Collects the ids of the sections, and checks that every element that is opened is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.sections = [], set()
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)
        if tag == "section":
            self.sections.add(dict(attributes)["id"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_report_has_every_section_and_needs_nothing_else(data, runs, tmp_path):
    page = report(runs("dwmr"), *data, tmp_path / "report.html")
    assert Balance(page).sections == LABEL_FREE | {"scores"}
    assert "://" not in page  # neither links nor resources from elsewhere
    assert "<script" not in page
    assert "no decoder" in page
    assert page.count('class="card"') == 3
    images = pngs(page)
    assert len(images) >= 2 * 3
    assert all(image.startswith(PNG) and imread(io.BytesIO(image)).size for image in images)
    assert len(page) < 3_000_000


def test_without_labels_the_other_sections_remain(data, runs, tmp_path):
    page = report(runs("dwmr"), *map(unlabelled, data), tmp_path / "report.html")
    assert Balance(page).sections == LABEL_FREE
    assert page.count('class="card"') == 3
    again = report(runs("dwmr"), *map(unlabelled, data), tmp_path / "again.html")
    assert again == page


def test_reliability(data, runs, tmp_path):
    model = dwmr.WorldModel.load(runs("dwmr"), device="cpu")
    certificate = dwmr.certify(model.encode, model.predict, data[1])
    page = report(runs("dwmr"), *data, tmp_path / "report.html", certificate=certificate)
    assert html.escape(certificate["summary"]) in page
    assert all(html.escape(each["question"]) in page for each in certificate["verdicts"])
    assert "– %" not in page


def test_a_decoder_draws_the_predicted_code(data, runs, tmp_path):
    page = report(runs("dwmr+ae"), *data, tmp_path / "report.html")
    assert page.count('alt="decoded from the predicted code"') == 3
    assert "no decoder" not in page


def test_names_given_by_users_are_escaped(data, runs, tmp_path):
    train, test = data
    test = dataclasses.replace(test, about={"benchmark": "<img src=x>"})
    info = read_info(runs("dwmr"))
    info = dataclasses.replace(info, versions={"<b>": "<i>"}, config=info.config.replace(benchmark='"><b>'))
    metrics = [{"epoch": 1, "terms": {"<script>": 0.5}, "bits": {}}]
    page = report(runs("dwmr"), train, test, tmp_path / "r.html", info=info, metrics=metrics)
    Balance(page)
    assert "<script" not in page
    assert "<img src=x>" not in page
    assert "<h1>&quot;&gt;&lt;b&gt;/dwmr</h1>" in page


def test_a_run_without_records_and_an_action_that_never_occurs(data, runs, tmp_path):
    train, test = data
    test = dataclasses.replace(test, actions=np.ones_like(test.actions))
    page = report(runs("dwmr"), train, test, tmp_path / "report.html", metrics=[])
    assert "no records" in page


def test_an_evaluation_of_other_data_is_refused(data, runs, tmp_path):
    train, test = data
    run, path = runs("dwmr"), tmp_path / "report.html"
    model = dwmr.WorldModel.load(run, device="cpu")
    (evaluation,) = evaluate_many([model], train=train, test=test)
    with pytest.raises(InputError, match="100"):
        write_report(
            path, model=model, info=read_info(run), metrics=[], evaluation=evaluation, test=test[:100], certificate={}
        )
    assert not path.exists()


@pytest.mark.parametrize("dead", [False, True])
def test_other_shapes(dead, tmp_path):
    """Many bits, many actions, five channels, boards that are no grid; and a code that never changes."""
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (2, 40, 5, 16, 20), dtype=np.uint8)
    states = random.integers(0, 30, (2, 40, 7))
    test = dwmr.Transitions(frames[0], np.arange(40) % 25, frames[1], 25, states[0], states[1])
    run = tmp_path / "run"
    config = dwmr.preset("generic/dwmr", bits=300, epochs=1, batch_size=20, triplets=10, high=300)
    dwmr.train(config, train=test, out=run, device="cpu", progress=False)
    model = dwmr.WorldModel.load(run, device="cpu")
    (evaluation,) = evaluate_many([model], train=test, test=test)
    if dead:
        same = torch.zeros_like(evaluation.codes)
        evaluation = dataclasses.replace(evaluation, codes=same, next_codes=same, predicted=same)
    path = tmp_path / "report.html"
    certificate = dwmr.certify(model.encode, model.predict, test)
    parts = {"model": model, "info": read_info(run), "metrics": [], "test": test}
    write_report(path, evaluation=evaluation, certificate=certificate, **parts)
    page = path.read_text()
    assert Balance(page).sections == (LABEL_FREE | {"scores"}) - {"rollouts"}


def test_cards_show_failures_successes_and_idle_actions():
    changed, wrong = (np.array(list(row)) == "1" for row in ("11110000", "00110001"))
    assert pick(changed, wrong) == [2, 3, 7, 0, 1, 4]


def test_a_perfect_model_has_no_failures_to_show():
    assert pick(np.ones(20, bool), np.zeros(20, bool)) == [0, 9, 19]


def test_fewer_transitions_than_cards():
    assert pick(np.array([True]), np.array([True])) == [0]


def test_text_is_escaped_but_markup_is_not():
    assert element("p", "a < b", Markup("<b>c</b>"), class_='"') == '<p class="&quot;">a &lt; b<b>c</b></p>'


@pytest.mark.parametrize(
    ("value", "shown"), [(99.97, ">99.9"), (100.0, "100.0"), (3, "3"), (None, "–"), (float("nan"), "–"), (0.04, "0.0")]
)
def test_numbers(value, shown):
    assert number(value) == shown
