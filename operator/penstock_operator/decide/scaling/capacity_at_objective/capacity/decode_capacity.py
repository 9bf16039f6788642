"""The capacity model of a pod that generates text, from its steps and answers; of the same form as for one-shot batches. Pure.

A decoding row brings its share of prompt tokens and context, so that at a given mix a step with b decoding rows takes
t(b) = a + c*b, and an answer needs a number of steps. A replica completes b / (t(b) * steps) requests a second, and by Little's
law b sequences run. Three things bound b: the time of a step (shared by tokens and prompts), the slots, and the cache.
"""

from collections.abc import Sequence
from math import inf, sqrt

from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    CapacityModel,
    tail_ratio,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_curves import PodSteps
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    AnswerSums,
    StepSums,
    add_answers,
    add_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import (
    StepTimeFit,
    fit,
)
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import ServiceCurve
from penstock_operator.decide.spec.objectives import LATE_SHARE

MIN_ENDS = 8.0
"""Completed answers that an estimate of their length needs."""
CACHE_SHARE = 0.9
"""Usable share of the cache; more leads to preemption."""
MIN_WALL_SECONDS = 10.0
MAX_STRETCH = 10.0
MIN_RUNNING = 4.0
"""Counted running sequences that an estimate of their cache usage needs."""


def decode_capacity(pods: Sequence[PodSteps], beyond: float = LATE_SHARE) -> CapacityModel | None:
    """Return the model of these pods together; None if the time of a step or the length of an answer is unknown.

    `beyond` is the share of answers whose mean step time is above the tail.
    """
    known = add_steps((pod.known, 1.0) for pod in pods)
    answers = add_answers((pod.answers, 1.0) for pod in pods)
    step_time_fit = fit(known)
    if step_time_fit is None or answers.ends < MIN_ENDS or answers.d <= 0 or known.d <= 0:
        return None
    prompts, context = answers.p / answers.d, answers.k / answers.d
    each = step_time_fit.d + step_time_fit.p * prompts + step_time_fit.k * context
    if each <= 0:
        return None
    pause = stretch(answers)
    error = step_time_fit.slope_error(prompts, context)
    row = ServiceCurve(pause * step_time_fit.a, pause * each, known.d / known.n, pause * error)
    steps = max(answers.d / answers.ends, 1.0)
    deviation = _deviation(step_time_fit, known, steps)
    return CapacityModel(
        lines=(row,),
        sums=_as_batches(known),
        tail_ratio=tail_ratio(deviation, 1.0, beyond),
        largest=max(pod.largest for pod in pods),
        r_squared=step_time_fit.r_squared,
        steps=steps,
        max_rows=_cached_rows(answers),
        p99_ratio=tail_ratio(deviation, 1.0, LATE_SHARE),
    )


def initial_rows(pods: Sequence[PodSteps], seconds: float | None, limit: int) -> int:
    """Return the cap before any answer has completed: the rows that fit a step of `seconds` by the warm-up, at most `limit`."""
    step_time_fit = fit(add_steps((pod.known, 1.0) for pod in pods))
    if step_time_fit is None or seconds is None:
        return limit
    known = step_time_fit.steps
    each = step_time_fit.d + step_time_fit.k * known.k / known.d if known.d > 0 else 0.0
    return limit if each <= 0 else min(max(int((seconds - step_time_fit.a) / each), 1), limit)


def stretch(answers: AnswerSums) -> float:
    """Return the time between steps over the time of a step, while requests wait: latency includes pauses."""
    if answers.wall < MIN_WALL_SECONDS or answers.stepped <= 0:
        return 1.0
    return min(max(answers.wall / answers.stepped, 1.0), MAX_STRETCH)


def _as_batches(steps: StepSums) -> CurveSumsTuple:
    """Return the step sums as batch sums, with decoding rows as the cost of a batch."""
    return CurveSumsTuple(0, steps.n, steps.d, steps.dd, steps.t, steps.dt, steps.tt)


def _deviation(step_time_fit: StepTimeFit, known: StepSums, steps: float) -> float:
    """Return the standard deviation of an answer's mean step time, relative to it.

    The objective is on that mean, over which noise averages out. Outliers of single steps, which a smaller batch does not
    shorten, must not shrink the batch.
    """
    return step_time_fit.sigma / (known.t / known.n) / sqrt(steps)


def _cached_rows(answers: AnswerSums) -> float:
    """Return how many sequences of mean size fit in the cache."""
    if answers.running < MIN_RUNNING or answers.usage <= 0:
        return inf
    return max(CACHE_SHARE * answers.running / answers.usage, 1.0)
