"""The trial of an edit under `OnObjectiveMiss`: measured against the window before it, then accepted or rolled back. Pure.

The window after begins when every Ready pod has acknowledged the settings. It is compared with the last window in
which the accepted settings were in force, at demand within 20 %; attainment lower by more than the share that may miss the
objective (one point at 99 percent) is a miss.
Where demand differs the comparison is repeated with the next window, up to three; an edit that cannot be compared by
then is accepted. So is an edit that comes with a tighter objective, or during whose trial the objective tightens:
the attainment before is not comparable.
"""

from dataclasses import dataclass, replace

from penstock_operator.decide.rollback.record import Record, Score, Settings
from penstock_operator.decide.spec.objectives import LATE_SHARE, Target

MAX_DEMAND_CHANGE = 0.2
MAX_WINDOWS = 3
MIN_REQUESTS = 50
"""Fewer requests in a window do not resolve one point of attainment; a stricter objective needs more in proportion."""
SETTLING_SECONDS = 10.0
"""Two ticks after publication, in which an acknowledgement may still be that of the previous limits."""
MARKS_PER_WINDOW = 20
"""Bounds the error of a window's edge to a twentieth of the window."""


@dataclass(frozen=True, slots=True)
class CounterMark:
    """Counters of requests on time and of all requests at one time."""

    time: float
    good: float
    total: float


@dataclass(frozen=True, slots=True)
class RollbackWatch:
    """Measurements of a pool between ticks, in addition to its record; lost with the process."""

    marks: tuple[CounterMark, ...] = ()
    """Marks of the accepted settings, while they are in force."""
    begun: float | None = None
    """Time at which the settings in force were published; None: before this process started."""
    since: CounterMark | None = None
    """Start of the window after."""
    scored: float | None = None
    """Time at which the reference of the record was last replaced during a rollback."""
    windows: int = 0
    """Windows that could not be compared."""


@dataclass(frozen=True, slots=True)
class RollbackObservation:
    """One observation of a pool."""

    now: CounterMark
    window: float
    """Seconds."""
    acknowledged: bool
    """Whether every Ready pod acknowledged the published limits."""
    late_share: float = LATE_SHARE
    """Share of requests that may miss the objective, 0 to 1."""

    @property
    def min_requests(self) -> float:
        """Return the requests that a window needs."""
        return MIN_REQUESTS * max(LATE_SHARE / self.late_share, 1.0)


def register(
    record: Record | None,
    watch: RollbackWatch,
    requested: Settings,
    observation: RollbackObservation,
) -> tuple[Record, RollbackWatch]:
    """Return record and watch for the settings that are requested now: accepted, rolled back, or on trial."""
    if record is None:
        return Record(requested), _marked(RollbackWatch(), observation)
    record, watch = _with_objectives(record, watch, requested)
    digest, now = requested.digest(), observation.now.time
    if requested == record.accepted:
        settled = replace(record, trial="", rolled_back="", why="")
        return _accepted(settled, RollbackWatch(begun=now) if record.trial else watch, observation)
    if digest == record.rolled_back:
        return _accepted(record, watch, observation)
    before = _reference(record, watch, observation)
    if before is None:
        return Record(requested), RollbackWatch()
    if digest == record.trial:
        return record, replace(watch, begun=now if watch.begun is None else watch.begun)
    trial = replace(record, trial=digest, before=before, rolled_back="", why="")
    return trial, RollbackWatch(begun=now)


def evaluate(
    record: Record, watch: RollbackWatch, requested: Settings, observation: RollbackObservation
) -> tuple[Record, RollbackWatch]:
    """Return record and watch after an observation of the trial, if there is one."""
    if not record.trial or record.before is None or watch.begun is None:
        return record, watch
    if watch.since is None:
        in_force = _in_force(watch, observation)
        return record, replace(watch, since=observation.now) if in_force else watch
    after = score(watch.since, observation.now)
    if after.seconds < observation.window:
        return record, watch
    if not _comparable(record.before, after, observation) and watch.windows + 1 < MAX_WINDOWS:
        return record, replace(watch, since=observation.now, windows=watch.windows + 1)
    verdict = _verdict(record, after, requested, observation)
    return verdict, RollbackWatch(begun=observation.now.time)


def _verdict(
    record: Record, after: Score, requested: Settings, observation: RollbackObservation
) -> Record:
    before = record.before
    kept = before is None or after.attainment >= before.attainment - observation.late_share
    if before is None or kept or not _comparable(before, after, observation):
        return Record(requested, before=after if after.total >= observation.min_requests else None)
    return replace(record, trial="", rolled_back=record.trial, why=_why(before, after))


def _with_objectives(
    record: Record, watch: RollbackWatch, requested: Settings
) -> tuple[Record, RollbackWatch]:
    """Return record and watch with the requested objectives, which are never on trial.

    Other settings on trial or rolled back stay so. Attainment before and after a tighter objective cannot be compared.
    Under a looser objective, attainment before the edit would have been at least as high, so a trial that falls below
    the measured value is a miss in any case.
    """
    objectives, accepted = requested.objectives, record.accepted.objectives
    if objectives == accepted:
        return record, watch
    then, now = requested.with_objectives(accepted).digest(), requested.digest()
    moved = replace(
        record,
        accepted=record.accepted.with_objectives(objectives),
        trial=now if record.trial == then else record.trial,
        rolled_back=now if record.rolled_back == then else record.rolled_back,
    )
    if all(
        metric in accepted and Target.read(value).admits(Target.read(accepted[metric]))
        for metric, value in objectives.items()
    ):
        return moved, replace(watch, since=None)
    return replace(moved, before=None), RollbackWatch()


def _accepted(
    record: Record, watch: RollbackWatch, observation: RollbackObservation
) -> tuple[Record, RollbackWatch]:
    """Return record and watch while the accepted settings are in force.

    During a rollback the record keeps a reference, replaced once a window: after a restart, an edit that leaves the
    settings that were rolled back as they are is compared with it.
    """
    watch, now = _marked(watch, observation), observation.now.time
    if not _has_window(watch, observation):
        return record, watch
    if not record.rolled_back:
        return replace(record, before=None), watch
    if watch.scored is not None and 0 <= now - watch.scored < observation.window:
        return record, watch
    before = _window_before(watch.marks, observation) or record.before
    return replace(record, before=before), replace(watch, scored=now)


def _has_window(watch: RollbackWatch, observation: RollbackObservation) -> bool:
    """Return whether the accepted settings were in force for a window."""
    return bool(watch.marks) and observation.now.time - watch.marks[0].time >= observation.window


def _reference(
    record: Record, watch: RollbackWatch, observation: RollbackObservation
) -> Score | None:
    """Return the score that a new trial is compared with: of the newest window, or of the record until there is one."""
    measured = _window_before(watch.marks, observation)
    return measured if measured and _has_window(watch, observation) else record.before or measured


def _marked(watch: RollbackWatch, observation: RollbackObservation) -> RollbackWatch:
    """Return the watch with a new mark; the first waits for the pods' acknowledgement of the settings."""
    if not watch.marks and not _in_force(watch, observation):
        return watch
    return replace(watch, marks=with_mark(watch.marks, observation.now, observation.window))


def with_mark(
    marks: tuple[CounterMark, ...], mark: CounterMark, window: float
) -> tuple[CounterMark, ...]:
    """Return the marks of one window, with `mark` if the last is old enough."""
    oldest = window * (1 + 1 / MARKS_PER_WINDOW)
    kept = tuple(earlier for earlier in marks if mark.time - earlier.time <= oldest)
    if kept and mark.time - kept[-1].time < window / MARKS_PER_WINDOW:
        return kept
    return (*kept, mark)


def score(since: CounterMark, now: CounterMark) -> Score:
    """Return the requests between two marks."""
    return Score(now.good - since.good, now.total - since.total, now.time - since.time)


def _in_force(watch: RollbackWatch, observation: RollbackObservation) -> bool:
    settled = watch.begun is None or observation.now.time - watch.begun >= SETTLING_SECONDS
    return observation.acknowledged and settled


def _window_before(
    marks: tuple[CounterMark, ...], observation: RollbackObservation
) -> Score | None:
    """Return the window up to now; None with less than half of it measured, or too few requests."""
    if not marks:
        return None
    before = score(marks[0], observation.now)
    measured = before.seconds >= observation.window / 2 and before.total >= observation.min_requests
    return before if measured else None


def _comparable(before: Score, after: Score, observation: RollbackObservation) -> bool:
    if after.total < observation.min_requests:
        return False
    return abs(after.demand - before.demand) <= MAX_DEMAND_CHANGE * before.demand


def _why(before: Score, after: Score) -> str:
    return (
        f"attainment fell from {100 * before.attainment:.1f} % to {100 * after.attainment:.1f} %"
        f" at comparable demand ({before.demand:.1f} and {after.demand:.1f} requests/s"
        f" over {before.seconds:.0f} and {after.seconds:.0f} s)"
    )
