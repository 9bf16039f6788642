"""What was learnt of steps and answers, as bounded plain data and back: a part of the law's checkpoint. Pure."""

from collections.abc import Mapping
from typing import Any

from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_curves import (
    Learnt,
    PodSteps,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    NO_ANSWERS,
    Answers,
    Steps,
    added,
    answered,
    steps_of,
)
from penstock_operator.observed import is_measured

LARGEST_ROWS = 1e6
DIGITS = 10
"""Of sums: their differences matter, which four would lose."""


def saved(learnt: Learnt) -> dict[str, Any]:
    """Return what is known of the revision that most pods run; nothing where no pod generates."""
    revision, pods = learnt.of_most()
    if not pods:
        return {}
    return {
        "stepsRevision": revision,
        "steps": _told(added((one.known, 1.0) for one in pods)),
        "answers": _told(answered((one.answers, 1.0) for one in pods)),
        "mostRows": round(max(one.largest for one in pods), 1),
    }


def restored(data: Mapping[str, Any], written: float) -> Learnt:
    """Return it as that of a pod that is gone: it counts while pods of its revision live. Anything may be in `data`."""
    revision, steps = data.get("stepsRevision"), _numbers(data.get("steps"), len(Steps._fields))
    answers = _numbers(data.get("answers"), len(NO_ANSWERS))
    largest = _numbers([data.get("mostRows")], 1)
    sums = steps_of(steps)
    if not isinstance(revision, str | None) or sums is None or not answers or not largest:
        return Learnt()
    past = PodSteps(
        revision=revision,
        epoch=0,
        last=Steps(),
        ended=0.0,
        time=written,
        prior=Steps(),
        data=sums,
        answers=Answers(*answers),
        largest=min(largest[0], LARGEST_ROWS),
    )
    return Learnt(gone={revision: past})


def _told(values: tuple[float, ...]) -> list[float]:
    return [float(f"{one:.{DIGITS}g}") for one in values]


def _numbers(values: Any, count: int) -> tuple[float, ...] | None:
    """Return so many numbers that are measurements; None for anything else, NaN too."""
    if not isinstance(values, list) or len(values) != count:
        return None
    sound = all(
        isinstance(one, int | float) and not isinstance(one, bool) and is_measured(one)
        for one in values
    )
    return tuple(map(float, values)) if sound else None
