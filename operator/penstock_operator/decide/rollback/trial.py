"""The life of an edit under `OnObjectiveMiss`: tried, measured, kept or set aside. Pure.

The window after begins when every Ready pod obeys the settings. It is compared with the last window in which the
accepted ones were in force, at demand within 20 %; more than one point lower is a miss. Where demand differs the next
window is waited for, three in all; what cannot be compared by then is kept. So is an edit that comes with a tighter
objective, or over which it tightens: attainment before says nothing of it.
"""

from dataclasses import dataclass, replace

from penstock_operator.decide.rollback.record import Record, Score, Settings
from penstock_operator.decide.rollback.windows import CounterMark, marked, score

MISS = 0.01
LIKE_DEMAND = 0.2
WINDOWS = 3
LEAST_REQUESTS = 50
"""Fewer in a window say nothing to a point."""
FIRST_SECONDS = 10.0
"""Two ticks: until then pods may seem to obey only because they have not been told yet."""


@dataclass(frozen=True, slots=True)
class RollbackWatch:
    """What is remembered of a pool between ticks, beside its record; lost with the process."""

    marks: tuple[CounterMark, ...] = ()
    """Of the accepted settings, while they are in force."""
    begun: float | None = None
    """When the settings in force were published; None: before this process looked."""
    since: CounterMark | None = None
    """Where the window after begins."""
    windows: int = 0
    """Windows that could not be compared."""


@dataclass(frozen=True, slots=True)
class RollbackObservation:
    """One look at a pool."""

    now: CounterMark
    window: float
    """Seconds."""
    obeyed: bool
    """Whether every Ready pod obeys what is published."""


def begun(
    record: Record | None, watch: RollbackWatch, asked: Settings, look: RollbackObservation
) -> tuple[Record, RollbackWatch]:
    """Return record and watch with the settings that are asked for now: old, set aside, or on trial."""
    if record is None:
        return Record(asked), _marked(RollbackWatch(), look)
    record, watch = _aimed(record, watch, asked)
    digest = asked.digest()
    if asked == record.accepted:
        resting = replace(record, trial="", set_aside="", why="")
        return _rested(resting, RollbackWatch(begun=look.now.time) if record.trial else watch, look)
    if digest == record.set_aside:
        return _rested(record, watch, look)
    before = record.before or _before(watch.marks, look)
    if before is None:
        return Record(asked), RollbackWatch()
    if digest == record.trial:
        started = look.now.time if watch.begun is None else watch.begun
        return record, replace(watch, begun=started)
    trial = replace(record, trial=digest, before=before, set_aside="", why="")
    return trial, RollbackWatch(begun=look.now.time)


def judged(
    record: Record, watch: RollbackWatch, asked: Settings, look: RollbackObservation
) -> tuple[Record, RollbackWatch]:
    """Return record and watch after a look at the trial, if there is one."""
    if not record.trial or record.before is None or watch.begun is None:
        return record, watch
    if watch.since is None:
        return record, replace(watch, since=look.now) if _in_force(watch, look) else watch
    after = score(watch.since, look.now)
    if after.seconds < look.window:
        return record, watch
    if not _comparable(record.before, after) and watch.windows + 1 < WINDOWS:
        return record, replace(watch, since=look.now, windows=watch.windows + 1)
    return _verdict(record, record.before, after, asked), RollbackWatch(begun=look.now.time)


def _verdict(record: Record, before: Score, after: Score, asked: Settings) -> Record:
    if not _comparable(before, after) or after.attainment >= before.attainment - MISS:
        return Record(asked, before=after if after.total >= LEAST_REQUESTS else None)
    return replace(record, trial="", set_aside=record.trial, why=_why(before, after))


def _aimed(record: Record, watch: RollbackWatch, asked: Settings) -> tuple[Record, RollbackWatch]:
    """Return record and watch with the objectives that are asked for, which are never on trial.

    What else is on trial or set aside stays so. Attainment before a tighter objective is no measure for after it;
    before a looser one it was no higher than it would have been, so what falls below it does harm all the more.
    """
    objectives, held = asked.objectives, record.accepted.objectives
    if objectives == held:
        return record, watch
    then, now = asked.aimed_at(held).digest(), asked.digest()
    moved = replace(
        record,
        accepted=record.accepted.aimed_at(objectives),
        trial=now if record.trial == then else record.trial,
        set_aside=now if record.set_aside == then else record.set_aside,
    )
    if all(metric in held and held[metric] <= objectives[metric] for metric in objectives):
        return moved, replace(watch, since=None)
    return replace(moved, before=None), RollbackWatch()


def _rested(
    record: Record, watch: RollbackWatch, look: RollbackObservation
) -> tuple[Record, RollbackWatch]:
    """Return record and watch while the accepted settings are in force."""
    watch = _marked(watch, look)
    seen = look.now.time - watch.marks[0].time if watch.marks else 0.0
    return (replace(record, before=None) if seen >= look.window else record), watch


def _marked(watch: RollbackWatch, look: RollbackObservation) -> RollbackWatch:
    """Return the watch with a new mark; the first waits until the pods obey, lest it tell of the settings before."""
    if not watch.marks and not _in_force(watch, look):
        return watch
    return replace(watch, marks=marked(watch.marks, look.now, look.window))


def _in_force(watch: RollbackWatch, look: RollbackObservation) -> bool:
    return look.obeyed and (watch.begun is None or look.now.time - watch.begun >= FIRST_SECONDS)


def _before(marks: tuple[CounterMark, ...], look: RollbackObservation) -> Score | None:
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
