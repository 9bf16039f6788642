"""The life of an edit under `OnObjectiveMiss`: tried, measured, kept or set aside. Pure.

The window after begins when every Ready pod obeys the settings. It is compared with the window before the first of
the edits under trial, at demand within 20 %; more than one point lower is a miss. Where demand differs the next window
is waited for, three in all; what cannot be compared by then is kept, and so is what only moves the objective.
"""

from dataclasses import dataclass, replace

from penstock_operator.decide.fields import OBJECTIVE
from penstock_operator.decide.rollback.marks import Mark, marked, score
from penstock_operator.decide.rollback.record import Record, Score, Settings

MISS = 0.01
LIKE_DEMAND = 0.2
WINDOWS = 3
LEAST_REQUESTS = 50
"""Fewer in a window say nothing to a point."""
FIRST_SECONDS = 10.0
"""Two ticks: until then pods may seem to obey only because they have not been told yet."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is remembered of a pool between ticks, beside its record; lost with the process."""

    marks: tuple[Mark, ...] = ()
    begun: float | None = None
    """When the settings on trial came into force."""
    since: Mark | None = None
    """Where the window after begins."""
    windows: int = 0
    """Windows that could not be compared."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a pool."""

    now: Mark
    window: float
    """Seconds."""
    obeyed: bool
    """Whether every Ready pod obeys what is published."""


def begun(record: Record | None, watch: Watch, asked: Settings, look: Look) -> tuple[Record, Watch]:
    """Return record and watch with the settings that are asked for now: old, set aside, or on trial."""
    watch = replace(watch, marks=marked(watch.marks, look.now, look.window))
    digest = asked.digest()
    if record is None or _same_but_objective(record.accepted, asked):
        return Record(asked), _idle(watch)
    if digest == record.set_aside:
        return record, _idle(watch)
    if digest == record.trial:
        started = look.now.time if watch.begun is None else watch.begun
        return record, replace(watch, begun=started)
    before = record.before if record.trial else _before(watch.marks, look)
    if before is None:
        return Record(asked), _idle(watch)
    trial = replace(record, trial=digest, before=before, set_aside="", why="")
    return trial, replace(_idle(watch), begun=look.now.time)


def judged(record: Record, watch: Watch, asked: Settings, look: Look) -> tuple[Record, Watch]:
    """Return record and watch after a look at the trial, if there is one."""
    if not record.trial or record.before is None or watch.begun is None:
        return record, watch
    if watch.since is None:
        ready = look.obeyed and look.now.time - watch.begun >= FIRST_SECONDS
        return record, replace(watch, since=look.now) if ready else watch
    after = score(watch.since, look.now)
    if after.seconds < look.window:
        return record, watch
    if not _comparable(record.before, after) and watch.windows + 1 < WINDOWS:
        return record, replace(watch, since=look.now, windows=watch.windows + 1)
    return _verdict(record, record.before, after, asked), _idle(watch)


def _verdict(record: Record, before: Score, after: Score, asked: Settings) -> Record:
    if not _comparable(before, after) or after.attainment >= before.attainment - MISS:
        return Record(asked)
    why = _why(before, after)
    return replace(record, trial="", before=None, set_aside=record.trial, why=why)


def _idle(watch: Watch) -> Watch:
    return Watch(marks=watch.marks)


def _same_but_objective(accepted: Settings, asked: Settings) -> bool:
    """A moved objective moves attainment by definition: no edit that moves it is judged by it."""
    if accepted == asked:
        return True
    return _objectives(accepted) != _objectives(asked)


def _objectives(settings: Settings) -> dict[str, int | str]:
    return {key: value for key, value in settings.fields.items() if key.startswith(OBJECTIVE)}


def _before(marks: tuple[Mark, ...], look: Look) -> Score | None:
    """Return the window up to now; None where less than half of it was seen, or too little."""
    if not marks:
        return None
    found = score(marks[0], look.now)
    seen = found.seconds >= look.window / 2 and found.total >= LEAST_REQUESTS
    return found if seen else None


def _comparable(before: Score, after: Score) -> bool:
    if after.total < LEAST_REQUESTS:
        return False
    return abs(after.demand - before.demand) <= LIKE_DEMAND * before.demand


def _why(before: Score, after: Score) -> str:
    return (
        f"attainment fell from {100 * before.attainment:.1f} % to {100 * after.attainment:.1f} %"
        f" at like demand ({before.demand:.1f} and {after.demand:.1f} requests a second,"
        f" {before.seconds:.0f} and {after.seconds:.0f} s)"
    )
