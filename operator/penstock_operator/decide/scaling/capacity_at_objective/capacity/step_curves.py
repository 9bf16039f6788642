"""What is known of each pod's steps and answers, tick by tick. Pure.

As `capacity.curves` for batches: what a pod told at first sight, and its warm-up, are its prior; what it does afterwards is
data, forgotten with a half-life of busy time. What answers need changes with the callers, so that is forgotten sooner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    HALF_LIFE_SECONDS,
    MIN_BATCHES_TO_JUDGE,
    ODD_INTERVALS,
    PRIOR_BATCHES,
    too_far,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    NO_ANSWERS,
    NO_STEPS,
    AnswerSums,
    StepSums,
    add_answers,
    add_steps,
    parse_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import fit
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.counters import Point
from penstock_operator.decide.scaling.signals.per_revision import RevisionKnowledge
from penstock_operator.decide.scaling.signals.windows import Window

ANSWERS_SECONDS = 120.0
"""The half-life of what answers need, in busy time. All else is forgotten, doubted and bounded as of batches, a step being one."""


@dataclass(frozen=True, slots=True)
class PodSteps:
    """One pod's steps: at first sight, since then, and those set aside as odd."""

    revision: str | None
    epoch: int
    last: StepSums
    """The raw sums at the last sample used."""
    ended: float
    """The completed requests at that sample."""
    time: float
    prior: StepSums
    data: StepSums = NO_STEPS
    answers: AnswerSums = NO_ANSWERS
    largest: float = 0.0
    """The most rows that surely decoded in one step."""
    waited: bool = False
    """Whether requests waited at that sample."""
    odd: tuple[StepSums, ...] = ()

    @property
    def known(self) -> StepSums:
        """Return all of it."""
        return add_steps([(self.data, 1.0), (self.prior, 1.0)])


StepCurves = RevisionKnowledge[PodSteps]


def learn_steps(
    before: StepCurves, windows: Mapping[str, Window], pods: Sequence[LawPod]
) -> StepCurves:
    """Return what is known with each pod's new samples."""
    return before.updated(
        pods, lambda known, pod: _learn(known, windows.get(pod.uid, ()), pod), _merged
    )


def _learn(known: PodSteps | None, window: Window, pod: LawPod) -> PodSteps | None:
    for point in window:
        if known is not None and point.time <= known.time:
            continue
        told = point.generation
        sums = None if told is None else parse_steps(told.sums)
        if told is None or sums is None:
            continue
        again = known is None or told.epoch < known.epoch or _fell(known, told.epoch, sums)
        if known is None or again:
            known = _met(point, sums, told.epoch, pod)
        else:
            known = _grown(known, point, sums, told.epoch)
    return known


def _fell(known: PodSteps, epoch: int, sums: StepSums) -> bool:
    return epoch == known.epoch and sums.n < known.last.n


def _met(point: Point, sums: StepSums, epoch: int, pod: LawPod) -> PodSteps:
    told = point.generation
    warm_up = (parse_steps(told.warm_up) if told is not None else None) or NO_STEPS
    prior = add_steps([(one, min(1.0, PRIOR_BATCHES / max(one.n, 1.0))) for one in (warm_up, sums)])
    largest = max(proven_rows(warm_up), proven_rows(sums))
    ended = point.counters.get("completed", 0.0)
    return PodSteps(
        pod.revision, epoch, sums, ended, point.time, prior, largest=largest, waited=_waits(point)
    )


def _waits(point: Point) -> bool:
    return point.waiting is not None and point.waiting >= 1


def _grown(known: PodSteps, point: Point, sums: StepSums, epoch: int) -> PodSteps:
    """Take in an interval; of one in which an epoch ended, what the old one still counted is lost."""
    fresh = sums if epoch > known.epoch else add_steps([(sums, 1.0), (known.last, -1.0)])
    ended = point.counters.get("completed", known.ended)
    ends = max(ended - known.ended, 0.0)
    usage = None if point.generation is None else point.generation.cache_usage
    counted = usage is not None and point.running is not None and point.running >= 1
    saturated = known.waited and _waits(point)
    answers = AnswerSums(
        ends=ends,
        p=fresh.p,
        d=fresh.d,
        k=fresh.k,
        running=point.running or 0.0 if counted else 0.0,
        usage=usage or 0.0 if counted else 0.0,
        wall=point.time - known.time if saturated else 0.0,
        stepped=fresh.t if saturated else 0.0,
    )
    faded = 0.5 ** (fresh.t / ANSWERS_SECONDS)
    noted = replace(
        known,
        epoch=epoch,
        last=sums,
        ended=ended,
        time=point.time,
        waited=_waits(point),
        answers=add_answers([(known.answers, faded), (answers, 1.0)]),
    )
    return _timed(noted, fresh)


def _timed(known: PodSteps, fresh: StepSums) -> PodSteps:
    """Add what an interval says of a step's time, unless it is too far off."""
    if fresh.n <= 0:
        return known
    if not _is_odd(known, fresh):
        return _with(known, known.prior, known.data, fresh)
    odd = (*known.odd, fresh)
    if len(odd) < ODD_INTERVALS:
        return replace(known, odd=odd)
    return _with(known, NO_STEPS, NO_STEPS, add_steps((one, 1.0) for one in odd))


def _with(known: PodSteps, prior: StepSums, data: StepSums, fresh: StepSums) -> PodSteps:
    kept = 0.5 ** (fresh.t / HALF_LIFE_SECONDS)
    whole, largest = add_steps([(data, kept), (fresh, 1.0)]), max(known.largest, proven_rows(fresh))
    return replace(known, prior=prior, data=whole, largest=largest, odd=())


def _is_odd(known: PodSteps, fresh: StepSums) -> bool:
    """Return whether an interval's time is too far from what the plane foretells of its steps."""
    step_time_fit = fit(known.known) if known.data.n >= MIN_BATCHES_TO_JUDGE else None
    if step_time_fit is None:
        return False
    return too_far(
        fresh.t / fresh.n, step_time_fit.predicted(fresh) / fresh.n, step_time_fit.sigma, fresh.n
    )


def proven_rows(steps: StepSums) -> float:
    """Return how many rows decoded in at least one of the steps."""
    return 0.0 if steps.d <= 0 else min(steps.dd / steps.d, steps.d)


def _merged(one: PodSteps, other: PodSteps) -> PodSteps:
    """Return both pods' knowledge, at no more weight than one pod's."""
    return replace(
        other,
        prior=add_steps([(one.prior, 0.5), (other.prior, 0.5)]),
        data=add_steps([(one.data, 0.5), (other.data, 0.5)]),
        answers=add_answers([(one.answers, 0.5), (other.answers, 0.5)]),
        largest=max(one.largest, other.largest),
    )
