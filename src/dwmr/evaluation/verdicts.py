"""How far to trust a model: one answer a question, each from one figure and two named thresholds.

There is no total score. The questions are of different kinds, and a model may be good for one use and not for another:
planning needs whole codes that last, reading a board does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

YES, PARTLY, NO, NOT_TESTED = "yes", "partly", "no", "not tested"
EXACT_ENOUGH = 95.0  # percent of whole codes: imagination is trusted as far as so many are right
NOISE_ASKED = "0.05"  # of the [0, 1] scale: noise that a camera has
LASTING = 100  # imagined steps that are asked for
ALIKE = 2.0  # percentage points by which two shares of codes may differ and count as the same
ENOUGH = 30  # frames, out of which a share says something


@dataclass(frozen=True)
class Question:
    """A figure is as good as ``yes`` or better: yes; as ``partly``: partly; else no. ``best`` says where better lies.

    ``find`` gives the figure and a remark, or None and the reason why it could not be had. What a code that never
    changes would answer well is not ``asked_of_a_constant`` one.
    """

    name: str
    asks: str
    find: Callable[[Mapping[str, Any]], tuple[float | None, str]]
    yes: float
    partly: float
    unit: str = "%"
    more_is_better: bool = True
    labels: bool = False
    asked_of_a_constant: bool = False

    def answer(self, figure: float) -> str:
        def reaches(bar: float) -> bool:
            return figure >= bar if self.more_is_better else figure <= bar

        return YES if reaches(self.yes) else PARTLY if reaches(self.partly) else NO


def answers(certificate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers to all questions: name, question, answer, figure, unit, remark, and the two thresholds."""
    found = []
    for question in QUESTIONS:
        if _constant(certificate) and not question.asked_of_a_constant:
            figure, remark = None, "the code never changes, so it proves nothing"
        else:
            figure, remark = question.find(certificate)
        found.append(
            {
                "name": question.name,
                "question": question.asks,
                "answer": NOT_TESTED if figure is None else question.answer(figure),
                "figure": figure,
                "unit": question.unit,
                "remark": remark,
                "thresholds": {"yes": question.yes, "partly": question.partly},
                "labels": question.labels,
            }
        )
    return found


def trusted_steps(drift: Mapping[str, Mapping[str, float]]) -> int:
    """The last step count up to which at least 95% of the whole codes are imagined rightly, 0 if none is."""
    trusted = 0
    for step, entry in drift.items():
        if entry["exact"] < EXACT_ENOUGH:
            break
        trusted = int(step)
    return trusted


def longest_tested(drift: Mapping[str, Mapping[str, float]]) -> int:
    return max(map(int, drift), default=0)


def summary(certificate: Mapping[str, Any]) -> str:
    """What to do with the model, in a sentence or two."""
    steps, longest = trusted_steps(certificate["drift"]), longest_tested(certificate["drift"])
    ahead = "one step" if steps == 1 else f"up to {steps:,} steps"
    if _constant(certificate):
        advice = "Every frame has the same code: this model says nothing."
    elif steps == 0:
        advice = "Do not rely on whole imagined codes, not even one step ahead."
        if _misread(certificate):
            advice += " It is the frames that are read differently: two of one state have the same code no more often."
    elif steps == longest:
        advice = f"Imagine {ahead} ahead, the longest that was tested."
    else:
        advice = f"Imagine {ahead} ahead, then look again."
    failed = [each["name"] for each in certificate["verdicts"] if each["answer"] == NO]
    untested = [each["name"] for each in certificate["verdicts"] if each["answer"] == NOT_TESTED]
    if failed:
        advice += f" Not to be trusted: {', '.join(failed)}."
    if untested:
        advice += f" Not tested: {', '.join(untested)}."
    return advice


def _misread(certificate: Mapping[str, Any]) -> bool:
    """Whether imagined codes are those of the frames seen, at every step, as often as the codes of two frames of one
    state are the same: then it is the reading that differs, not the imagination."""
    right = [entry["exact"] for entry in certificate["drift"].values()]
    return bool(certificate["redrawn"] and right) and min(right) >= certificate["same_code"] - ALIKE


def _constant(certificate: Mapping[str, Any]) -> bool:
    return bool(certificate["dead"] == certificate["bits"])


def _useful(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
    bits, dead, duplicate = (certificate[name] for name in ("bits", "dead", "duplicate"))
    effective = f"worth about {certificate['information']['participation']:.0f} independent ones"
    return 100 * (bits - dead - duplicate) / bits, f"{dead} dead, {duplicate} duplicate of {bits} bits; {effective}"


def _redrawing(name: str, remark: str) -> Callable[[Mapping[str, Any]], tuple[float | None, str]]:
    def find(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
        redrawn = certificate["redrawn"]
        if redrawn is None:
            return None, "the data names no episodes, so no two frames of one state are known"
        if redrawn == 0:
            return None, "the data draws a state always the same way"
        value = certificate[name]
        return value, remark if value is not None else "no bit ever changes"

    return find


def _noise(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
    found = certificate["noise"]
    if NOISE_ASKED not in found:
        return None, f"noise of strength {NOISE_ASKED} was not asked for"
    tried = ", ".join(f"{entry['same_code']:.1f}% at {strength}" for strength, entry in found.items())
    return found[NOISE_ASKED]["same_code"], f"whole codes kept: {tried}"


def _next(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
    changed = certificate["exact_changed"]
    if changed is None:
        return certificate["exact_next"], "no action ever changes the code"
    return certificate["exact_next"], f"{changed:.1f}% where the code changes"


def _lasting(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
    drift = certificate["drift"]
    steps, longest = trusted_steps(drift), longest_tested(drift)
    if steps == longest < LASTING:
        return None, f"right as far as the data can be followed, which is {longest}" if longest else "nothing to follow"
    last = f"{drift[str(longest)]['exact']:.1f}% of the codes right after {longest:,}"
    return steps, f"as long as {EXACT_ENOUGH:g}% of whole codes are right; {last}"


def _real(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
    told = {
        step: entry
        for step, entry in certificate["drift"].items()
        if entry["known_seen"] * entry["episodes"] / 100 >= ENOUGH
    }
    if not told:
        return None, "too few of the frames seen have codes that occur elsewhere in the data"
    fewer = {step: max(100 * (1 - entry["known"] / entry["known_seen"]), 0.0) for step, entry in told.items()}
    worst = max(fewer, key=lambda step: fewer[step])
    known, seen = told[worst]["known"], told[worst]["known_seen"]
    after = "one step" if worst == "1" else f"{int(worst):,} steps"
    return fewer[worst], f"after {after} {known:.1f}% are, of real frames' codes {seen:.1f}%"


def _labelled(name: str, remark: str) -> Callable[[Mapping[str, Any]], tuple[float | None, str]]:
    def find(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
        value = certificate.get(name)
        return value, remark if value is not None else "the data has no labels"

    return find


def _splits(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
    if "splits" in certificate and certificate["redrawn_states"] == 0:
        return None, "the data shows a state always by the same picture"
    return _labelled("splits", "of frames show a state that also has another code")(certificate)


def _graph(certificate: Mapping[str, Any]) -> tuple[float | None, str]:
    graphs = certificate.get("graphs")
    if graphs is None:
        return None, "no true graphs were given"
    edges = f"{graphs['edges_right']:.2f}% of {graphs['edges']:,} edges right"
    alike = f"in {graphs['isomorphic']:.1f}% what it reaches is the true graph under other names"
    return graphs["same"], f"of {graphs['levels']} levels every edge as encoded; {edges}; {alike}"


QUESTIONS = (
    Question("bits", "Does every bit say something of its own?", _useful, yes=90, partly=50, asked_of_a_constant=True),
    Question(
        "redrawing",
        "Does a state keep its code when it is drawn again?",
        _redrawing("same_code", "of pairs of frames of one state have the same code"),
        yes=99,
        partly=80,
    ),
    Question(
        "state",
        "Do the bits follow the state, not the drawing?",
        _redrawing("state_share", "of a bit's variance, on average, is the state's"),
        yes=99,
        partly=90,
    ),
    Question("noise", "Does a frame keep its code under a little pixel noise?", _noise, yes=99, partly=80),
    Question("next", "Is the next code right?", _next, yes=99, partly=80),
    Question("lasting", "Can it imagine a hundred steps ahead?", _lasting, yes=LASTING, partly=10, unit="steps"),
    Question(
        "real",
        "Do imagined codes stay codes of real frames?",
        _real,
        yes=1,
        partly=10,
        unit="% fewer",
        more_is_better=False,
    ),
    Question(
        "collisions",
        "Has every state a code of its own?",
        _labelled("collisions", "of frames have a code that also stands for another state"),
        yes=0.1,
        partly=5,
        more_is_better=False,
        labels=True,
        asked_of_a_constant=True,
    ),
    Question(
        "splits",
        "Has every state only one code?",
        _splits,
        yes=1,
        partly=20,
        more_is_better=False,
        labels=True,
    ),
    Question(
        "graph",
        "Is the world it learned the true one?",
        _graph,
        yes=99,
        partly=50,
        labels=True,
        asked_of_a_constant=True,
    ),
)
