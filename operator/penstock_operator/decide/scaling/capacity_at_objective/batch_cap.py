"""The batch cap of CapacityAtObjective. Pure.

b* is the batch of greatest capacity of those of which two fit the objective, with 10 % to spare: a request waits for the
running batch and for its own. A measured tail that the noise around the curve does not explain lowers it (x 0.9). Without an objective the cap is the knee of the
curve: the smallest batch with nearly the capacity of the largest. The cap follows b* at once beyond a dead band.
"""

from math import ceil, floor
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    MAX_EXTRAPOLATION,
    CapacityModel,
)
from penstock_operator.decide.scaling.reasons import CapMove, CapReason
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap
from penstock_operator.decide.spec.law_settings import LawSettings

CODEC_SECONDS = 0.005
"""Part of the objective for reading, writing and transferring a request, which is not measured separately."""
SPARE = 0.9
JUDGE_SECONDS = 30.0
"""Minimum time between two changes of the back-off."""
KNEE = 0.9
"""Share of the largest batch's capacity that suffices without an objective."""
DEAD_BAND = 0.05
"""Relative change of b* below which the plan is unchanged, since the fit fluctuates."""
BACK_OFF = 0.9
MIN_TRUST = 0.1


class BatchPlan(NamedTuple):
    """State of the cap."""

    cap: int | None = None
    """b_plan, in rows; None before the first plan."""
    term: CapReason = CapReason.FIRST_CAP
    trust: float = 1.0
    """Back-off factor on b*, from measured batch times."""
    judged: float = 0.0
    """Time of the last change of `trust`."""


class PlanInput(NamedTuple):
    """Inputs of the cap plan."""

    settings: LawSettings
    model: CapacityModel
    memory_bound: int | None
    settled_tail_seconds: float | None
    """Tail of batch time since every Ready pod acknowledged the cap, over a full window; None if unknown."""


def spare_seconds(settings: LawSettings) -> float | None:
    """Return D - t0, the time for waiting and batches, in seconds; None without an objective."""
    if settings.objective_milliseconds is None:
        return None
    window = settings.max_queue_delay_milliseconds / 1000
    return max(settings.objective_milliseconds / 1000 - window - CODEC_SECONDS, 0.0)


def max_batch_seconds(settings: LawSettings, steps: float | None) -> float | None:
    """Return the longest allowed tail of batch time, in seconds; None without an objective for it.

    Two batches fit RequestLatency. In generation a step takes the time of a token, and an answer's `steps` half of RequestLatency.
    """
    if steps is None:
        spare = spare_seconds(settings)
        return None if spare is None else spare / 2
    token, whole = settings.output_token_milliseconds, settings.objective_milliseconds
    limits = [] if token is None else [token / 1000]
    limits += [] if whole is None else [whole / 1000 / 2 / max(steps, 1.0)]
    return min(limits, default=None)


def max_wait_seconds(settings: LawSettings, steps: float | None) -> float | None:
    """Return the time until a request is late, in seconds; in generation, until its first token is late."""
    if steps is None:
        return spare_seconds(settings)
    first = settings.first_token_milliseconds
    return spare_seconds(settings) if first is None else first / 1000


def best_cap(seen: PlanInput, trust: float) -> tuple[int, CapReason]:
    """Return min(b*, back-off, memory, envelope) and the reason."""
    top, term = _top(seen)
    longest = max_batch_seconds(seen.settings, seen.model.steps)
    if longest is None:
        return _knee(seen, top, term)
    fits = seen.model.largest_within(longest * SPARE, top)
    if fits < max(1, seen.settings.size_min):
        if fits < 1:
            return clamp_cap(1, seen.settings), CapReason.OBJECTIVE_INFEASIBLE
        return clamp_cap(fits, seen.settings), CapReason.SIZE_MIN
    if fits < top:
        term = CapReason.OBJECTIVE
    backed = max(floor(fits * trust), 1)
    if backed < fits:
        fits, term = backed, CapReason.BACK_OFF
    best = seen.model.most_productive(fits)
    return clamp_cap(best, seen.settings), term if best == fits else CapReason.KNEE


def _knee(seen: PlanInput, top: int, term: CapReason) -> tuple[int, CapReason]:
    """Return the smallest cap with nearly the capacity of `top`; larger batches add latency for little capacity."""
    best = seen.model.most_productive(top)
    capacity = seen.model.capacity(best)
    if capacity is None or not seen.model.identified:
        return top, term
    low, high = max(seen.settings.size_min, 1), best
    while low < high:
        middle = (low + high) // 2
        if (seen.model.capacity(middle) or 0.0) >= KNEE * capacity:
            high = middle
        else:
            low = middle + 1
    return (low, CapReason.KNEE) if low < top else (top, term)


def next_plan(before: BatchPlan, seen: PlanInput, now: float) -> BatchPlan:
    """Return the plan after this tick."""
    plan = _backed_off(before, seen, now)
    best, term = best_cap(seen, plan.trust)
    if plan.cap is not None and term in {CapReason.OBJECTIVE, CapReason.KNEE}:
        kept = clamp_cap(min(plan.cap, _top(seen)[0]), seen.settings)
        best = kept if abs(best - kept) <= DEAD_BAND * kept else best
    return plan._replace(cap=best, term=term)


def cap_move(plan: BatchPlan, seen: PlanInput) -> CapMove:
    """Return the cap to publish and its reason."""
    cap = plan.cap or seen.settings.size_min
    return CapMove(cap, plan.term, _why(plan, seen, cap))


def _top(seen: PlanInput) -> tuple[int, CapReason]:
    top, term = seen.settings.size_max, CapReason.SIZE_MAX
    known = max(floor(MAX_EXTRAPOLATION * seen.model.largest), 1)
    known = max(known, ceil(seen.model.largest) + 1)
    if known < top:
        top, term = known, CapReason.MEASURED_RANGE
    if seen.memory_bound is not None and seen.memory_bound < top:
        top, term = seen.memory_bound, CapReason.MEMORY_BOUND
    return clamp_cap(top, seen.settings), term


def _backed_off(plan: BatchPlan, seen: PlanInput, now: float) -> BatchPlan:
    """Return the plan with its back-off updated from measured batch time."""
    longest, tail = max_batch_seconds(seen.settings, seen.model.steps), seen.settled_tail_seconds
    if longest is None or tail is None or now - plan.judged < JUDGE_SECONDS:
        return plan
    if seen.model.steps is None:  # two batches of typical time fit: their noise is no error
        longest *= seen.model.tail_ratio
    trust = plan.trust
    if tail > longest:
        trust = max(trust * BACK_OFF, MIN_TRUST)
    elif tail < longest * SPARE:
        trust = min(trust / BACK_OFF, 1.0)
    return plan if trust == plan.trust else plan._replace(trust=trust, judged=now)


def _why(plan: BatchPlan, seen: PlanInput, cap: int) -> str:
    settings = seen.settings
    fits, infeasible = _objective_words(seen, cap)
    words = {
        CapReason.OBJECTIVE: fits,
        CapReason.OBJECTIVE_INFEASIBLE: infeasible,
        CapReason.KNEE: _knee_words(seen, cap),
        CapReason.SIZE_MAX: f"batching.size.max is {settings.size_max}",
        CapReason.SIZE_MIN: f"batching.size.min is {settings.size_min}",
        CapReason.MEMORY_BOUND: f"memory allows {seen.memory_bound} rows",
        CapReason.MEASURED_RANGE: f"no batch over {seen.model.largest:.0f} rows has been measured",
        CapReason.BACK_OFF: "the tail of batch times exceeds half the objective",
    }
    return words.get(plan.term, "the planned cap")


def _knee_words(seen: PlanInput, cap: int) -> str:
    if max_batch_seconds(seen.settings, seen.model.steps) is None:
        return f"no objective is set; {cap} rows a batch give {100 * KNEE:.0f} % of the largest batch's capacity"
    return f"batches over {cap} rows take longer for each row"


def _objective_words(seen: PlanInput, cap: int) -> tuple[str, str]:
    """Return the messages for a cap set by the objective and for an infeasible objective."""
    settings, seconds = seen.settings, seen.model.seconds(cap)
    takes = "" if seconds is None else f" of {1000 * seconds:.0f} ms"
    if seen.model.steps is None:
        objective = f"{settings.objective_milliseconds} ms"
        return f"two batches{takes} fit {objective}", f"no batch is short enough for {objective}"
    longest = 1000 * (max_batch_seconds(settings, seen.model.steps) or 0.0)
    objective = f"{longest:.0f} ms a token"
    return f"a step{takes} fits {objective}", f"no step is short enough for {objective}"
