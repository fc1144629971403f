"""Ten yes/no questions about how reliable a model is. Each is answered from one figure and two thresholds.

There is no overall score: a model can be good enough for one use and not for another. Planning needs whole codes that
stay correct over many steps; reading the board does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

YES, PARTLY, NO, NOT_TESTED = "yes", "partly", "no", "not tested"
MIN_EXACT = 95.0  # percent of whole codes: below this a roll-out no longer counts as correct
NOISE_STRENGTH = "0.05"  # on the [0, 1] scale, about the noise of a camera
ROLLOUT_STEPS = 100
SHARE_TOLERANCE = 2.0  # percentage points by which two shares of codes may differ and still count as equal
MIN_KNOWN = 30  # frames with known codes, below which a share of known codes means nothing
NEED_LABELS = {"collisions", "splits", "graph"}
ASKED_OF_CONSTANT_CODES = {"bits", "collisions", "graph"}  # a code that never changes passes the others trivially

Certificate = Mapping[str, Any]
Finding = tuple[float | None, str]


@dataclass(frozen=True)
class Question:
    """A question, how to measure it, and the figures that are good enough for ``yes`` and for ``partly``.

    ``measure`` returns the figure and a remark, or None and the reason why there is no figure.
    """

    name: str
    asks: str
    measure: Callable[[Certificate], Finding]
    yes: float
    partly: float
    unit: str = "%"

    @property
    def more_is_better(self) -> bool:
        return self.yes > self.partly

    def answer(self, figure: float) -> str:
        sign = 1 if self.more_is_better else -1
        return YES if sign * figure >= sign * self.yes else PARTLY if sign * figure >= sign * self.partly else NO


def answers(certificate: Certificate) -> list[dict[str, Any]]:
    """The answer to every question: name, question, answer, figure, unit, remark, thresholds, labels."""
    results = []
    for question in QUESTIONS:
        figure, remark = question.measure(certificate)
        if _constant(certificate) and question.name not in ASKED_OF_CONSTANT_CODES:
            figure, remark = None, "the code never changes, so there is nothing to test"
        results.append(
            {
                "name": question.name,
                "question": question.asks,
                "answer": NOT_TESTED if figure is None else question.answer(figure),
                "figure": figure,
                "unit": question.unit,
                "remark": remark,
                "thresholds": {"yes": question.yes, "partly": question.partly},
                "labels": question.name in NEED_LABELS,
            }
        )
    return results


def correct_steps(drift: Mapping[str, Mapping[str, float]]) -> int:
    """The number of steps up to which at least 95% of the imagined codes are exact; 0 if not even after one step."""
    steps = 0
    for step, entry in drift.items():
        if entry["exact"] < MIN_EXACT:
            break
        steps = int(step)
    return steps


def summary(certificate: Certificate) -> str:
    """What the model can be used for, in a few sentences."""
    drift = certificate["drift"]
    steps, longest = correct_steps(drift), _longest(drift)
    by_answer = {
        answer: ", ".join(each["name"] for each in certificate["verdicts"] if each["answer"] == answer)
        for answer in (NO, NOT_TESTED)
    }
    if _constant(certificate):
        advice = ["Every frame has the same code: the model carries no information."]
    elif steps == 0:
        advice = ["Imagined codes are unreliable, even one step ahead."]
        exact = [entry["exact"] for entry in drift.values()]
        if certificate["redrawn"] and exact and min(exact) >= certificate["same_code"] - SHARE_TOLERANCE:
            advice.append("The cause is the encoder: it gives two frames of one state different codes just as often.")
    else:
        limit = "the longest roll-out tested" if steps == longest else "then encode a new frame"
        advice = [f"Roll-outs are reliable for {_count(steps)}, {limit}."]
    advice += [f"Failed: {by_answer[NO]}."] if by_answer[NO] else []
    advice += [f"Not tested: {by_answer[NOT_TESTED]}."] if by_answer[NOT_TESTED] else []
    return " ".join(advice)


def _longest(drift: Mapping[str, Any]) -> int:
    return max(map(int, drift), default=0)


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps:,} steps"


def _constant(certificate: Certificate) -> bool:
    return bool(certificate["dead"] == certificate["bits"])


def _bits(certificate: Certificate) -> Finding:
    bits, dead, duplicate = (certificate[name] for name in ("bits", "dead", "duplicate"))
    effective = f"{certificate['information']['participation']:.0f} effective independent bits"
    return 100 * (bits - dead - duplicate) / bits, f"{dead} dead, {duplicate} duplicate of {bits} bits; {effective}"


def _same_code(certificate: Certificate) -> Finding:
    return _if_redrawn(certificate, "same_code", "of pairs of frames of one state have the same code")


def _state_share(certificate: Certificate) -> Finding:
    return _if_redrawn(certificate, "state_share", "of a bit's variance comes from the state, on average")


def _if_redrawn(certificate: Certificate, name: str, remark: str) -> Finding:
    if certificate["redrawn"] is None:
        return None, "the data has no episodes, so no pairs of frames of one state are known"
    if certificate["redrawn"] == 0:
        return None, "the data always draws a state the same way"
    return certificate[name], remark if certificate[name] is not None else "no bit ever changes"


def _noise(certificate: Certificate) -> Finding:
    tested = certificate["noise"]
    if NOISE_STRENGTH not in tested:
        return None, f"noise of strength {NOISE_STRENGTH} was not tested"
    kept = ", ".join(f"{entry['same_code']:.1f}% at {strength}" for strength, entry in tested.items())
    return tested[NOISE_STRENGTH]["same_code"], f"codes kept: {kept}"


def _next(certificate: Certificate) -> Finding:
    changed = certificate["exact_changed"]
    remark = "no action changes the code" if changed is None else f"{changed:.1f}% where the code changes"
    return certificate["exact_next"], remark


def _rollout(certificate: Certificate) -> Finding:
    drift = certificate["drift"]
    steps, longest = correct_steps(drift), _longest(drift)
    if steps == longest < ROLLOUT_STEPS:
        return None, f"correct up to {_count(longest)}, the longest episode" if longest else "no episodes to follow"
    last = f"{drift[str(longest)]['exact']:.1f}% after {longest:,}"
    return steps, f"with at least {MIN_EXACT:g}% of the codes exact; {last}"


def _known(certificate: Certificate) -> Finding:
    usable = {
        step: entry
        for step, entry in certificate["drift"].items()
        if entry["known_seen"] * entry["episodes"] / 100 >= MIN_KNOWN
    }
    if not usable:
        return None, "too few codes of real frames occur twice in the data"
    fewer = {step: max(100 * (1 - entry["known"] / entry["known_seen"]), 0.0) for step, entry in usable.items()}
    worst = max(fewer, key=lambda step: fewer[step])
    known, seen = usable[worst]["known"], usable[worst]["known_seen"]
    remark = f"after {_count(int(worst))} {known:.1f}% of imagined codes are known, of real frames' codes {seen:.1f}%"
    return fewer[worst], remark


def _collisions(certificate: Certificate) -> Finding:
    if "collisions" not in certificate:
        return None, "the data has no labels"
    return certificate["collisions"], "of frames have a code that also stands for another state"


def _splits(certificate: Certificate) -> Finding:
    if "splits" not in certificate:
        return None, "the data has no labels"
    if certificate["redrawn_states"] == 0:
        return None, "the data always draws a state the same way"
    return certificate["splits"], "of frames show a state that also has another code"


def _graph(certificate: Certificate) -> Finding:
    graphs = certificate.get("graphs")
    if graphs is None:
        return None, "no true graphs were given"
    edges = f"{graphs['edges_right']:.2f}% of {graphs['edges']:,} edges are correct"
    renamed = f"{graphs['isomorphic']:.1f}% of the levels if codes may be renamed"
    return graphs["same"], f"of {graphs['levels']} levels have every edge correct; {edges}; {renamed}"


# name, question, measure, threshold of "yes", threshold of "partly"
QUESTIONS = (
    Question("bits", "Does every bit carry information?", _bits, 90, 50),
    Question("stability", "Does a state keep its code when it is drawn differently?", _same_code, 99, 80),
    Question("state", "Do the bits depend on the state alone, not on how it is drawn?", _state_share, 99, 90),
    Question("noise", "Does a frame keep its code under slight pixel noise?", _noise, 99, 80),
    Question("next", "Is the next code predicted correctly?", _next, 99, 80),
    Question("rollout", "Do roll-outs of 100 steps stay correct?", _rollout, ROLLOUT_STEPS, 10, unit="steps"),
    Question("known", "Do imagined codes belong to real frames?", _known, 1, 10, unit="% fewer"),
    Question("collisions", "Do different states have different codes?", _collisions, 0.1, 5),
    Question("splits", "Does every state have only one code?", _splits, 1, 20),
    Question("graph", "Is the learned world the true one?", _graph, 99, 50),
)
