"""What the run came to: the figures, and whether the show happened. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from tests.demo.moment import Moment
from tests.support.load.report import Report


@dataclass(frozen=True, slots=True)
class EditTaken:
    """How long an edit took to reach every pod."""

    command: str
    acknowledged_seconds: float | None
    """None: not by all pods, or the edit changes nothing that pods obey."""
    effect: str


@dataclass(slots=True)
class Run:
    """Everything that was recorded."""

    moments: list[Moment] = field(default_factory=list)
    edits: list[EditTaken] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step: `apply to Ready` and the like."""
    final: Report | None = None


def changes(moments: Sequence[Moment], value: Callable[[Moment], Any]) -> list[tuple[int, Any]]:
    """Return (second, value) at the start and at each change; unknown values are passed over."""
    known = [(one.second, value(one)) for one in moments if value(one) is not None]
    return known[:1] + [now for before, now in pairwise(known) if now[1] != before[1]]


def failures(run: Run) -> list[str]:
    """Return why the show is not to be believed; nothing when it went as announced."""
    found = []
    if run.final is None or run.final.completed == 0:
        return ["the load generator gave no figures"]
    if run.final.lost or run.final.wrong:
        found.append(f"{run.final.lost} requests lost, {run.final.wrong} answered wrongly")
    if len(changes(run.moments, lambda one: one.cap)) < 2:
        found.append("the batch cap never moved")
    ready = [one.ready for one in run.moments]
    if max(ready) <= ready[0]:
        found.append("the replicas never rose")
    elif ready[-1] >= max(ready):
        found.append("the replicas never fell again")
    found += [
        f"edit not acknowledged by all pods: {edit.command}"
        for edit in run.edits
        if edit.acknowledged_seconds is None and not edit.effect
    ]
    return found


def as_json(run: Run) -> dict[str, Any]:
    """Return the record that goes into run.json."""
    return {
        "timings": run.timings,
        "edits": [asdict(edit) for edit in run.edits],
        "cap": changes(run.moments, lambda one: one.cap),
        "ready": changes(run.moments, lambda one: one.ready),
        "failures": failures(run),
        "load": asdict(run.final) if run.final else None,
        "moments": [asdict(one) for one in run.moments],
    }
