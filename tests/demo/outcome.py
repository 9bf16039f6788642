"""Result of a demo run: its record, and the reasons for which it failed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from tests.demo.moment import Moment
from tests.support.load.report import Report


@dataclass(frozen=True, slots=True)
class EditTaken:
    """An edit, and the time until every pod acknowledged it."""

    command: str
    acknowledged_seconds: float | None
    """None if not all pods acknowledged it, or if the edit changes no limits of pods."""
    effect: str
    second: int = 0
    """Seconds from the start of the show."""
    label: str = ""
    """A few words for the picture."""


@dataclass(slots=True)
class Run:
    """Record of a demo run."""

    moments: list[Moment] = field(default_factory=list)
    edits: list[EditTaken] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step: `apply to Ready` and the like."""
    final: Report | None = None
    objective_milliseconds: float = 0.0
    """The pool's objective for the 99th percentile of latency."""
    answer: str = ""
    """The demonstration model's last answer; empty if it gave none."""
    problems: list[str] = field(default_factory=list)
    """What went wrong after the show."""
    notes: list[str] = field(default_factory=list)
    """What could not be shown."""


def changes(moments: Sequence[Moment], value: Callable[[Moment], Any]) -> list[tuple[int, Any]]:
    """Return (second, value) at the start and at each change; unknown values are skipped."""
    known = [(moment.second, value(moment)) for moment in moments if value(moment) is not None]
    return known[:1] + [now for before, now in pairwise(known) if now[1] != before[1]]


def failures(run: Run) -> list[str]:
    """Return the reasons for which the run failed; empty if it succeeded."""
    reasons = []
    if run.final is None or run.final.completed == 0:
        return ["the load generator gave no figures"]
    if run.final.lost or run.final.wrong:
        reasons.append(f"{run.final.lost} requests lost, {run.final.wrong} answered wrongly")
    if len(changes(run.moments, lambda moment: moment.cap)) < 2:
        reasons.append("the batch cap never moved")
    ready = [moment.ready for moment in run.moments]
    if max(ready) <= ready[0]:
        reasons.append("the replicas never rose")
    elif ready[-1] >= max(ready):
        reasons.append("the replicas never fell again")
    reasons += [
        f"edit not acknowledged by all pods: {edit.command}"
        for edit in run.edits
        if edit.acknowledged_seconds is None and not edit.effect
    ]
    return reasons + run.problems


def as_json(run: Run) -> dict[str, Any]:
    """Return the record that goes into run.json."""
    return {
        "timings": run.timings,
        "objective_milliseconds": run.objective_milliseconds,
        "answer": run.answer,
        "edits": [asdict(edit) for edit in run.edits],
        "cap": changes(run.moments, lambda moment: moment.cap),
        "ready": changes(run.moments, lambda moment: moment.ready),
        "failures": failures(run),
        "load": asdict(run.final) if run.final else None,
        "moments": [asdict(moment) for moment in run.moments],
    }
