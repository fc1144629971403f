"""Eight questions about how reliable a model is, each answered from one figure and two thresholds.

There is no score: a model can be good enough for one use and not for another. Planning needs whole codes that stay
correct over many steps; reading the board does not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

YES, PARTLY, NO, NOT_TESTED = "yes", "partly", "no", "not tested"
MIN_EXACT = 95.0  # percent of whole codes: below this a roll-out no longer counts as correct
NOISE_STRENGTH = "0.05"  # on the [0, 1] scale, about the noise of a camera
ROLLOUT_STEPS = 100
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
SHARE_TOLERANCE = 2.0  # percentage points by which two shares of codes may differ and still count as equal
ASKED_OF_CONSTANT_CODES = {"bits", "collisions", "graph"}  # a code that never changes passes the others trivially
NO_LABELS = "the data has no labels"

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

    def answer(self, figure: float) -> str:
        sign = 1 if self.yes > self.partly else -1
        return YES if sign * figure >= sign * self.yes else PARTLY if sign * figure >= sign * self.partly else NO


def answers(certificate: Certificate) -> list[dict[str, Any]]:
    """The answer to every question: name, question, answer, figure, unit, remark, thresholds."""
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
    """What was found and what could not be tested, in a few sentences.

    The model is called reliable only if every question is answered with yes.
    """
    given: dict[str, list[dict[str, Any]]] = {answer: [] for answer in (YES, PARTLY, NO, NOT_TESTED)}
    for each in certificate["verdicts"]:
        given[each["answer"]].append(each)
    found = [_about_codes(certificate)]
    for title, answer in (("Failed", NO), ("Partly", PARTLY)):
        if given[answer]:
            found.append(f"{title}: {', '.join(each['name'] for each in given[answer])}.")
    if given[NOT_TESTED]:
        reasons = "; ".join(f"{each['name']} ({each['remark']})" for each in given[NOT_TESTED])
        count = len(given[NOT_TESTED])
        untested = f"{COUNTS[count]} {'question was' if count == 1 else 'questions were'} not tested"
        found.append(f"No overall verdict, because {untested}: {reasons}.")
    elif len(given[YES]) == len(QUESTIONS):
        found.append("Every question is answered with yes: the model is reliable.")
    return " ".join(found)


def _about_codes(certificate: Certificate) -> str:
    """How long predicted codes stay exact, and whether states share codes."""
    drift, collisions = certificate["drift"], certificate.get("collisions")
    steps, longest = correct_steps(drift), _longest(drift)
    if _constant(certificate):
        return "Every frame has the same code: the model carries no information."
    if steps == 0:
        exact = [entry["exact"] for entry in drift.values()]
        encoder = certificate["redrawn"] and exact and min(exact) >= certificate["same_code"] - SHARE_TOLERANCE
        cause = " The cause is the encoder: it gives two frames of one state different codes just as often."
        return "Predicted codes are unreliable, even one step ahead." + (cause if encoder else "")
    tested = f", up to the longest roll-out tested ({_count(steps)})"
    span = tested if steps == longest else f" up to {_count(steps)} ahead, but not farther"
    shared = "Whether different states share a code is not known."
    if collisions is not None:
        shared = f"{collisions:.1f}% of the frames share a code with another state."
    return f"At least {MIN_EXACT:g}% of the predicted codes are exact{span}. {shared}"


def _longest(drift: Mapping[str, Any]) -> int:
    return max(map(int, drift), default=0)


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps:,} steps"


def _constant(certificate: Certificate) -> bool:
    return bool(certificate["dead"] == certificate["bits"])


def _bits(certificate: Certificate) -> Finding:
    bits, dead, duplicate = (certificate[name] for name in ("bits", "dead", "duplicate"))
    return 100 * (bits - dead - duplicate) / bits, f"{dead} dead, {duplicate} duplicate of {bits} bits"


def _same_code(certificate: Certificate) -> Finding:
    if certificate["redrawn"] is None:
        return None, "the data has no episodes, so no pairs of frames of one state are known"
    if certificate["redrawn"] == 0:
        return None, "the data always draws a state the same way"
    return certificate["same_code"], "of pairs of frames of one state have the same code"


def _noise(certificate: Certificate) -> Finding:
    kept = ", ".join(f"{entry['same_code']:.1f}% at {strength}" for strength, entry in certificate["noise"].items())
    return certificate["noise"][NOISE_STRENGTH]["same_code"], f"codes kept: {kept}"


def _next(certificate: Certificate) -> Finding:
    changed = certificate["exact_changed"]
    remark = "no action changes the code" if changed is None else f"{changed:.1f}% where the code changes"
    return certificate["exact_next"], remark


def _rollout(certificate: Certificate) -> Finding:
    drift = certificate["drift"]
    steps, longest = correct_steps(drift), _longest(drift)
    if steps == longest < ROLLOUT_STEPS:
        return None, f"holds up to {_count(longest)}, the longest tested" if longest else "no episodes to follow"
    exact = f"{drift[str(longest)]['exact']:.1f}% exact"
    if steps == longest:
        return steps, f"holds up to {_count(steps)}, the longest tested; {exact} there"
    held = f"holds up to {_count(steps)}" if steps else "does not hold even after 1 step"
    return steps, f"{held}; {exact} after {_count(longest)}"


def _collisions(certificate: Certificate) -> Finding:
    if "collisions" not in certificate:
        return None, NO_LABELS
    return certificate["collisions"], "of frames have a code that also stands for another state"


def _consistency(certificate: Certificate) -> Finding:
    if "splits" not in certificate:
        return None, NO_LABELS
    if certificate["splits"] == 0 and not certificate["redrawn"]:
        return None, "no state is known to be drawn in two ways"
    return certificate["splits"], "of frames show a state that also has another code"


def _graph(certificate: Certificate) -> Finding:
    graphs = certificate.get("graphs")
    if graphs is None:
        return None, "no true graphs were given"
    edges = f"{graphs['edges_right']:.2f}% of {graphs['edges']:,} edges are correct"
    return graphs["same"], f"of {graphs['levels']} levels have every edge correct; {edges}"


# name, question, measure, threshold of "yes", threshold of "partly"
QUESTIONS = (
    Question("bits", "Does every bit carry information?", _bits, 90, 50),
    Question("stability", "Does a state keep its code when it is drawn differently?", _same_code, 99, 80),
    Question("noise", "Does a frame keep its code under slight pixel noise?", _noise, 99, 80),
    Question("next", "Is the next code predicted correctly?", _next, 99, 80),
    Question("rollout", "Are at least 95% of codes exact after 100 steps?", _rollout, ROLLOUT_STEPS, 10, unit="steps"),
    Question("collisions", "Do different states have different codes?", _collisions, 0.1, 5),
    Question("consistency", "Does every state have only one code?", _consistency, 1, 20),
    Question("graph", "Is the learned world the true one?", _graph, 99, 50),
)
