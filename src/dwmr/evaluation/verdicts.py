"""Eight questions about how reliable a model is, each answered from one figure and two thresholds.

There is no score: a model can be good enough for one use and not for another. Planning needs whole codes that stay
correct over many steps; reading the board does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

YES, PARTLY, NO, NOT_TESTED = "yes", "partly", "no", "not tested"
MIN_EXACT = 95.0  # percent of whole codes: below this a roll-out no longer counts as correct
NOISE_STRENGTH = "0.05"  # on the [0, 1] scale, about the noise of a camera
ROLLOUT_STEPS = 100
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
SHARE_TOLERANCE = 2.0  # percentage points by which two shares of codes may differ and still count as equal
ASKED_OF_CONSTANT_CODES = {"bits", "collisions", "graph"}  # a code that never changes passes the others trivially

Certificate = Mapping[str, Any]
Finding = tuple[float | None, str]  # a figure and a remark, or None and the reason why there is no figure


@dataclass(frozen=True)
class Question:
    """A question, and the figures that are good enough for ``yes`` and for ``partly``."""

    name: str
    asks: str
    yes: float
    partly: float
    unit: str = "%"

    def answer(self, figure: float) -> str:
        sign = 1 if self.yes > self.partly else -1
        return YES if sign * figure >= sign * self.yes else PARTLY if sign * figure >= sign * self.partly else NO


QUESTIONS = (
    Question("bits", "Does every bit carry information?", 90, 50),
    Question("stability", "Does a state keep its code when it is rendered again?", 99, 80),
    Question("noise", "Does an image keep its code under slight pixel noise?", 99, 80),
    Question("next", "Is the next code predicted correctly?", 99, 80),
    Question(
        "rollout", "Are at least 95% of predicted codes exact for 100 steps or more?", ROLLOUT_STEPS, 10, unit="steps"
    ),
    Question("collisions", "Do different states have different codes?", 0.1, 5),
    Question("consistency", "Do all images with the same labels have the same code?", 1, 20),
    Question("graph", "Does the model's state graph equal the true one?", 99, 50),
)


def answers(certificate: Certificate) -> list[dict[str, Any]]:
    """The answer to every question: name, question, answer, figure, unit, remark, thresholds."""
    found, results = _findings(certificate), []
    for question in QUESTIONS:
        figure, remark = found[question.name]
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
            }
        )
    return results


def _findings(certificate: Certificate) -> dict[str, Finding]:
    """The figure that answers each question."""
    found: dict[str, Finding] = {}
    bits, dead, duplicate = (certificate[name] for name in ("bits", "dead", "duplicate"))
    found["bits"] = 100 * (bits - dead - duplicate) / bits, f"{dead} dead, {duplicate} duplicate of {bits} bits"

    identical = None, "all images of a state are identical in this data"
    found["stability"] = certificate["same_code"], "of the pairs of images of one state have the same code"
    if certificate["redrawn"] is None:
        found["stability"] = None, "the data has no episodes, so no two images are known to show the same state"
    elif certificate["redrawn"] == 0:
        found["stability"] = identical

    kept = ", ".join(f"{entry['same_code']:.1f}% at {strength}" for strength, entry in certificate["noise"].items())
    found["noise"] = certificate["noise"][NOISE_STRENGTH]["same_code"], f"codes kept: {kept}"

    changed = certificate["exact_changed"]
    remark = "no action changes the code" if changed is None else f"{changed:.1f}% where the code changes"
    found["next"] = certificate["exact_next"], remark
    found["rollout"] = _rollout(certificate["drift"])

    found["collisions"] = found["consistency"] = None, "the data has no labels"
    if "collisions" in certificate:
        found["collisions"] = certificate["collisions"], "of the images have a code that also stands for another state"
        found["consistency"] = certificate["splits"], "of the images show a state that also has another code"
        if certificate["splits"] == 0 and not certificate["redrawn"]:
            unknown = None, "the data has no episodes, so no two different images are known to show the same state"
            found["consistency"] = unknown if certificate["redrawn"] is None else identical

    found["graph"] = None, "no true graphs were given"
    if graphs := certificate.get("graphs"):
        edges = f"{graphs['edges_right']:.2f}% of {graphs['edges']:,} edges are correct"
        found["graph"] = graphs["same"], f"of the {graphs['levels']} levels have every edge correct; {edges}"
    return found


def _rollout(drift: Mapping[str, Mapping[str, float]]) -> Finding:
    steps, longest = correct_steps(drift), _longest(drift)
    if steps == longest < ROLLOUT_STEPS:
        return None, f"holds up to {_count(longest)}, the longest tested" if longest else "no episodes to follow"
    exact = f"{drift[str(longest)]['exact']:.1f}% exact"
    if steps == longest:
        return steps, f"holds up to {_count(steps)}, the longest tested; {exact} there"
    held = f"holds up to {_count(steps)}" if steps else "does not hold even after 1 step"
    return steps, f"{held}; {exact} after {_count(longest)}"


def correct_steps(drift: Mapping[str, Mapping[str, float]]) -> int:
    """The number of steps up to which at least 95% of the imagined codes are exact; 0 if not even after one step."""
    steps = 0
    for step, entry in drift.items():
        if entry["exact"] < MIN_EXACT:
            break
        steps = int(step)
    return steps


def summary(certificate: Certificate) -> str:
    """What was found and what could not be tested, in a few sentences.

    The model is called reliable only if every question is answered with yes.
    """
    found, verdicts = [_about_codes(certificate)], certificate["verdicts"]
    for answer in (NO, PARTLY):
        if names := [each["name"] for each in verdicts if each["answer"] == answer]:
            found.append(f'Answered "{answer}": {", ".join(names)}.')
    if reasons := [f"{each['name']} ({each['remark']})" for each in verdicts if each["answer"] == NOT_TESTED]:
        untested = f"{COUNTS[len(reasons)].capitalize()} of the {COUNTS[len(verdicts)]} questions"
        found.append(f"{untested} could not be tested: {'; '.join(reasons)}.")
    elif len(found) == 1:
        found.append("Every question is answered with yes: the model is reliable.")
    return " ".join(found)


def _about_codes(certificate: Certificate) -> str:
    """How long predicted codes stay exact, and whether states share codes."""
    drift, collisions = certificate["drift"], certificate.get("collisions")
    steps = correct_steps(drift)
    if _constant(certificate):
        return "Every image has the same code, so the code carries no information."
    if steps == 0:
        exact = [entry["exact"] for entry in drift.values()]
        encoder = certificate["redrawn"] and exact and min(exact) >= certificate["same_code"] - SHARE_TOLERANCE
        cause = " The cause is the encoder: it gives two images of one state different codes just as often."
        return "Predicted codes are unreliable, even one step ahead." + (cause if encoder else "")
    limit = " (the longest roll-out tested)" if steps == _longest(drift) else ", but not further"
    shared = "Whether different states have the same code is not known."
    if collisions is not None:
        shared = f"{collisions:.1f}% of the images have a code that also stands for another state."
    return f"Up to {_count(steps)} ahead{limit}, at least {MIN_EXACT:g}% of the predicted codes are exact. {shared}"


def _longest(drift: Mapping[str, Any]) -> int:
    return max(map(int, drift), default=0)


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps:,} steps"


def _constant(certificate: Certificate) -> bool:
    return bool(certificate["dead"] == certificate["bits"])
