"""Step sums of the pods that generate text, updated at each tick. Pure.

As for batches (`batch_curves`), the first sums of a pod and its warm-up are its prior; later steps are data that decays with a
half-life of busy time. The needs of answers change with the clients and decay faster.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
"""Half-life of answer sums, in seconds of busy time. All other constants are those of batches, with a step as a batch."""


class PodSteps(NamedTuple):
    """One pod's steps: first sample, later data, and outliers."""

    revision: str | None
    epoch: int
    last: StepSums
    """Raw sums at the last sample used."""
    ended: float
    """Completed requests at that sample."""
    time: float
    prior: StepSums
    data: StepSums = NO_STEPS
    answers: AnswerSums = NO_ANSWERS
    largest: float = 0.0
    """Lower bound of the most rows decoded in one step."""
    waited: bool = False
    """Whether requests were waiting at that sample."""
    odd: tuple[StepSums, ...] = ()

    @property
    def known(self) -> StepSums:
        """Return prior and data together."""
        return add_steps([(self.data, 1.0), (self.prior, 1.0)])


StepCurves = RevisionKnowledge[PodSteps]


def learn_steps(
    before: StepCurves, windows: Mapping[str, Window], pods: Sequence[LawPod]
) -> StepCurves:
    """Return the curves with each pod's new samples."""
    return before.updated(
        pods, lambda known, pod: _learn(known, windows.get(pod.uid, ()), pod), _merged
    )


def _learn(known: PodSteps | None, window: Window, pod: LawPod) -> PodSteps | None:
    for point in window:
        if known is not None and point.time <= known.time:
            continue
        generation = point.generation
        sums = None if generation is None else parse_steps(generation.sums)
        if generation is None or sums is None:
            continue
        again = (
            known is None or generation.epoch < known.epoch or _fell(known, generation.epoch, sums)
        )
        if known is None or again:
            known = _met(point, sums, generation.epoch, pod)
        else:
            known = _grown(known, point, sums, generation.epoch)
    return known


def _fell(known: PodSteps, epoch: int, sums: StepSums) -> bool:
    return epoch == known.epoch and sums.n < known.last.n


def _met(point: Point, sums: StepSums, epoch: int, pod: LawPod) -> PodSteps:
    generation = point.generation
    warm_up = (parse_steps(generation.warm_up) if generation is not None else None) or NO_STEPS
    prior = add_steps(
        [(steps, min(1.0, PRIOR_BATCHES / max(steps.n, 1.0))) for steps in (warm_up, sums)]
    )
    largest = max(proven_rows(warm_up), proven_rows(sums))
    ended = point.counters.get("completed", 0.0)
    return PodSteps(
        pod.revision, epoch, sums, ended, point.time, prior, largest=largest, waited=_waits(point)
    )


def _waits(point: Point) -> bool:
    return point.waiting is not None and point.waiting >= 1


def _grown(known: PodSteps, point: Point, sums: StepSums, epoch: int) -> PodSteps:
    """Return the steps with a new interval; at a new epoch the last counts of the old one are lost."""
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
    noted = known._replace(
        epoch=epoch,
        last=sums,
        ended=ended,
        time=point.time,
        waited=_waits(point),
        answers=add_answers([(known.answers, faded), (answers, 1.0)]),
    )
    return _timed(noted, fresh)


def _timed(known: PodSteps, fresh: StepSums) -> PodSteps:
    """Return the steps with an interval's step times, unless it is an outlier."""
    if fresh.n <= 0:
        return known
    if not _is_odd(known, fresh):
        return _with(known, known.prior, known.data, fresh)
    odd = (*known.odd, fresh)
    if len(odd) < ODD_INTERVALS:
        return known._replace(odd=odd)
    return _with(known, NO_STEPS, NO_STEPS, add_steps((interval, 1.0) for interval in odd))


def _with(known: PodSteps, prior: StepSums, data: StepSums, fresh: StepSums) -> PodSteps:
    kept = 0.5 ** (fresh.t / HALF_LIFE_SECONDS)
    whole, largest = add_steps([(data, kept), (fresh, 1.0)]), max(known.largest, proven_rows(fresh))
    return known._replace(prior=prior, data=whole, largest=largest, odd=())


def _is_odd(known: PodSteps, fresh: StepSums) -> bool:
    """Return whether an interval's time is too far from the fit's prediction for its steps."""
    step_time_fit = fit(known.known) if known.data.n >= MIN_BATCHES_TO_JUDGE else None
    if step_time_fit is None:
        return False
    return too_far(
        fresh.t / fresh.n, step_time_fit.predicted(fresh) / fresh.n, step_time_fit.sigma, fresh.n
    )


def proven_rows(steps: StepSums) -> float:
    """Return a lower bound of the most rows decoded in one step."""
    return 0.0 if steps.d <= 0 else min(steps.dd / steps.d, steps.d)


def _merged(earlier: PodSteps, other: PodSteps) -> PodSteps:
    """Return the mean of both pods' sums."""
    return other._replace(
        prior=add_steps([(earlier.prior, 0.5), (other.prior, 0.5)]),
        data=add_steps([(earlier.data, 0.5), (other.data, 0.5)]),
        answers=add_answers([(earlier.answers, 0.5), (other.answers, 0.5)]),
        largest=max(earlier.largest, other.largest),
    )
