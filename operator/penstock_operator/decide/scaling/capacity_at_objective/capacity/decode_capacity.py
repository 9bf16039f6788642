"""From steps and answers to the curve of a row that decodes: what the law reckons with for one-shot batches too. Pure.

A row that decodes brings its share of prompts and its context along, so at a given mix a step takes t(b) = a + c*b, where
b rows decode, and an answer needs so many steps. A replica then ends b / (t(b) * steps) requests a second, and by
Little's law b sequences run. Three things bound b: the time of a step (tokens and prompts share it), the places, and the cache.
"""

from collections.abc import Sequence
from math import inf, sqrt

from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    MIN_BATCHES_TO_JUDGE,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    MAX_P99_RATIO,
    NORMAL_P99,
    CapacityModel,
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

MIN_ENDS = 8.0
"""Fewer answers do not tell how long answers are."""
CACHE_SHARE = 0.9
"""Of the cache: more leads to preemption."""
MIN_WALL_SECONDS = 10.0
MAX_STRETCH = 10.0
MIN_RUNNING = 4.0
"""Fewer counts of running sequences do not tell what one holds."""


def decode_capacity(pods: Sequence[PodSteps]) -> CapacityModel | None:
    """Return the model of these pods together; None where the time of a step or the length of an answer is not known."""
    known = add_steps((one.known, 1.0) for one in pods)
    answers = add_answers((one.answers, 1.0) for one in pods)
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
    return CapacityModel(
        lines=(row,),
        sums=_as_batches(known),
        p99_ratio=_p99_ratio(step_time_fit, known, steps),
        largest=max(one.largest for one in pods),
        r_squared=step_time_fit.r_squared,
        steps=steps,
        max_rows=_cached_rows(answers),
    )


def initial_rows(pods: Sequence[PodSteps], seconds: float | None, most: int) -> int:
    """Return how many rows may decode before any answer has ended: as many as the warm-up fits into a step of `seconds`."""
    step_time_fit = fit(add_steps((one.known, 1.0) for one in pods))
    if step_time_fit is None or seconds is None:
        return most
    known = step_time_fit.steps
    each = step_time_fit.d + step_time_fit.k * known.k / known.d if known.d > 0 else 0.0
    return most if each <= 0 else min(max(int((seconds - step_time_fit.a) / each), 1), most)


def stretch(answers: AnswerSums) -> float:
    """Return the time from step to step, while requests wait, over the step's own: clients feel pauses as well."""
    if answers.wall < MIN_WALL_SECONDS or answers.stepped <= 0:
        return 1.0
    return min(max(answers.wall / answers.stepped, 1.0), MAX_STRETCH)


def slowness(known: PodSteps | None, together: StepTimeFit | None) -> float:
    """Return how much longer this pod's steps took than such steps take in its pool; 1 while few were seen."""
    if known is None or together is None or known.data.n < MIN_BATCHES_TO_JUDGE:
        return 1.0
    predicted = together.predicted(known.data)
    return max(known.data.t / predicted, 0.1) if predicted > 0 else 1.0


def _as_batches(steps: StepSums) -> CurveSumsTuple:
    """Return the sums over steps with rows that decode for the cost of a batch."""
    return CurveSumsTuple(0, steps.n, steps.d, steps.dd, steps.t, steps.dt, steps.tt)


def _p99_ratio(step_time_fit: StepTimeFit, known: StepSums, steps: float) -> float:
    """Return the 99th percentile of an answer's mean step over t(b): chance evens out over the steps of an answer.

    The objective is about that mean. A tail of single steps, which no smaller batch shortens, must not shrink the batch.
    """
    spread = step_time_fit.sigma / (known.t / known.n) / sqrt(steps)
    return min(max(1 + NORMAL_P99 * spread, 1.0), MAX_P99_RATIO)


def _cached_rows(answers: AnswerSums) -> float:
    """Return how many sequences of the usual size the cache holds."""
    if answers.running < MIN_RUNNING or answers.usage <= 0:
        return inf
    return max(CACHE_SHARE * answers.running / answers.usage, 1.0)
