"""The batch cap of CapacityAtObjective, and the bridge above it while replicas start. Pure.

b* is the largest batch of which two fit the objective, with 10 % to spare: a request waits for the running batch and for its
own. The cap moves to b* at once when the curve is first known, later up by at most 25 % a minute. Measured batch time only
lowers it (x 0.9) where the curve was wrong. Without an objective the cap is the knee of the curve: the smallest batch with
nearly the capacity of the largest. While replicas start, a backlog justifies longer batches, which cost less per row; one of
them may fill the objective.
"""

from math import ceil, floor, sqrt
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    MAX_EXTRAPOLATION,
    CapacityModel,
)
from penstock_operator.decide.scaling.reasons import CapMove, CapReason
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap, step_size
from penstock_operator.decide.spec.law_settings import LawSettings

CODEC_SECONDS = 0.005
"""Part of the objective for reading, writing and transferring a request, which is not measured separately."""
SPARE = 0.9
UP_SECONDS = 60.0
DOWN_SECONDS = 30.0
KNEE = 0.9
"""Share of the largest batch's capacity that suffices without an objective."""
DEAD_BAND = 0.05
"""Relative change of b* below which the plan is unchanged, since the fit fluctuates."""
BACK_OFF = 0.9
MIN_TRUST = 0.1
BRIDGE_SECONDS = 30.0
"""Time after which a bridge without a backlog ends, since a replica may never start."""
BRIDGE_STEP = 1.1
"""Smallest factor by which a bridge is raised, since every change is pushed to every pod."""


class BatchPlan(NamedTuple):
    """State of the cap."""

    cap: int | None = None
    """b_plan, in rows; None before the first plan."""
    term: CapReason = CapReason.FIRST_CAP
    identified: bool = False
    """Whether a curve was known at the time of the plan."""
    raised: float = 0.0
    lowered: float = 0.0
    trust: float = 1.0
    """Back-off factor on b*, from measured batch times."""
    judged: float = 0.0
    """Time of the last check of batch time."""
    bridge: int | None = None
    """The cap while replicas start; None without a bridge."""
    bridged: float = 0.0
    """Last time at which a backlog justified more than the plan."""


class PlanInput(NamedTuple):
    """Inputs of the cap plan."""

    settings: LawSettings
    model: CapacityModel
    memory_bound: int | None
    settled: bool
    """Whether every Ready pod has acknowledged the published cap."""
    settled_tail_seconds: float | None
    """Tail of batch time since then, over a full window; None if unknown."""
    starting: bool
    """Whether requested replicas are not Ready yet."""
    backlog_per_pod: float
    """Rows."""


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
    return clamp_cap(fits, seen.settings), term


def _knee(seen: PlanInput, top: int, term: CapReason) -> tuple[int, CapReason]:
    """Return the smallest cap with nearly the capacity of `top`; larger batches add latency for little capacity."""
    capacity = seen.model.capacity(top)
    if capacity is None or not seen.model.identified:
        return top, term
    low, high = max(seen.settings.size_min, 1), top
    while low < high:
        middle = (low + high) // 2
        if (seen.model.capacity(middle) or 0.0) >= KNEE * capacity:
            high = middle
        else:
            low = middle + 1
    return (low, CapReason.KNEE) if low < top else (top, term)


def next_plan(before: BatchPlan, seen: PlanInput, now: float) -> BatchPlan:
    """Return the plan after this tick."""
    plan = _backed_off(_bounded(before, seen), seen, now)
    best, term = best_cap(seen, plan.trust)
    cap = plan.cap
    if cap is None or (seen.model.identified and not plan.identified):
        plan = plan._replace(cap=best, term=term, identified=seen.model.identified, raised=now)
    elif best > cap:
        plan = _raised(plan, best, term, seen, now)
    elif best < cap:
        plan = _lowered(plan, best, term, now)
    else:
        plan = plan._replace(term=term)
    return _bridged(plan, seen, now)


def _bounded(plan: BatchPlan, seen: PlanInput) -> BatchPlan:
    """Return the plan within the present envelope and memory bound, which apply at once."""
    if plan.cap is None:
        return plan
    cap = plan.cap if seen.memory_bound is None else min(plan.cap, seen.memory_bound)
    return plan._replace(cap=clamp_cap(cap, seen.settings))


def cap_move(plan: BatchPlan, seen: PlanInput) -> CapMove:
    """Return the cap to publish and its reason."""
    cap = plan.cap or seen.settings.size_min
    if plan.bridge is not None and plan.bridge > cap:
        why = f"{seen.backlog_per_pod:.0f} rows are waiting per pod while replicas start; the planned cap is {cap}"
        return CapMove(plan.bridge, CapReason.BRIDGE, why)
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


def _raised(plan: BatchPlan, best: int, term: CapReason, seen: PlanInput, now: float) -> BatchPlan:
    cap = plan.cap or 1
    if term in {CapReason.OBJECTIVE, CapReason.KNEE} and best - cap <= DEAD_BAND * cap:
        return plan._replace(term=term)
    if not seen.settled:
        return plan._replace(term=CapReason.UNACKNOWLEDGED)
    if now - plan.raised < UP_SECONDS:
        return plan._replace(term=CapReason.STEP_INTERVAL)
    return plan._replace(cap=min(best, cap + step_size(cap)), term=term, raised=now)


def _lowered(plan: BatchPlan, best: int, term: CapReason, now: float) -> BatchPlan:
    cap = plan.cap or 1
    hard = term in {CapReason.MEMORY_BOUND, CapReason.SIZE_MAX, CapReason.BACK_OFF}
    if not hard and cap - best <= DEAD_BAND * cap:
        return plan._replace(term=term)
    if not hard and now - plan.lowered < DOWN_SECONDS:
        return plan._replace(term=CapReason.STEP_INTERVAL)
    return plan._replace(cap=best, term=term, lowered=now)


def _backed_off(plan: BatchPlan, seen: PlanInput, now: float) -> BatchPlan:
    """Return the plan with its back-off updated from measured batch time, at most once a window and not during a bridge."""
    longest, tail = max_batch_seconds(seen.settings, seen.model.steps), seen.settled_tail_seconds
    if (
        longest is None
        or tail is None
        or plan.bridge is not None
        or now - plan.judged < DOWN_SECONDS
    ):
        return plan
    if tail > longest:
        trust = max(plan.trust * BACK_OFF, MIN_TRUST)
    elif tail < longest * SPARE:
        trust = min(plan.trust / BACK_OFF, 1.0) if now - plan.raised >= UP_SECONDS else plan.trust
    else:
        return plan
    return plan._replace(trust=trust, judged=now)


def _bridged(plan: BatchPlan, seen: PlanInput, now: float) -> BatchPlan:
    """Return the plan with its bridge, which lasts while replicas start and a backlog justifies it, within the present bounds."""
    if not seen.starting or plan.cap is None:
        return plan._replace(bridge=None)
    top = max(_longest_bridge(seen), plan.cap)
    target, bridge = _bridge_target(plan.cap, seen, top), min(plan.bridge or plan.cap, top)
    bridged = now if target > plan.cap else plan.bridged
    if target >= BRIDGE_STEP * bridge:
        bridge = target
    over = bridge <= plan.cap or now - bridged >= BRIDGE_SECONDS
    return plan._replace(bridge=None if over else bridge, bridged=bridged)


def _longest_bridge(seen: PlanInput) -> int:
    """Return the largest batch that fits the objective, memory and envelope."""
    top, _ = _top(seen)
    longest = max_batch_seconds(seen.settings, seen.model.steps)
    if longest is None:
        return top
    whole = longest if seen.model.steps is not None else 2 * longest
    return seen.model.largest_within(whole, top)


def _bridge_target(cap: int, seen: PlanInput, top: int) -> int:
    """Return the batch size that serves the backlog fastest, at most `top`; `cap` if larger batches cost no less per row."""
    single, a = seen.model.seconds(1), seen.model.intercept(cap) * (seen.model.seconds(cap) or 0.0)
    if single is None or a <= 0 or single <= a:
        return cap
    return min(max(cap, ceil(sqrt(seen.backlog_per_pod * a / (single - a)))), top)


def _why(plan: BatchPlan, seen: PlanInput, cap: int) -> str:
    settings = seen.settings
    fits, infeasible = _objective_words(seen, cap)
    words = {
        CapReason.OBJECTIVE: fits,
        CapReason.OBJECTIVE_INFEASIBLE: infeasible,
        CapReason.KNEE: f"no objective is set; {cap} rows a batch give {100 * KNEE:.0f} % of the largest batch's capacity",
        CapReason.SIZE_MAX: f"batching.size.max is {settings.size_max}",
        CapReason.SIZE_MIN: f"batching.size.min is {settings.size_min}",
        CapReason.MEMORY_BOUND: f"memory allows {seen.memory_bound} rows",
        CapReason.MEASURED_RANGE: f"no batch over {seen.model.largest:.0f} rows has been measured",
        CapReason.BACK_OFF: "measured batch times exceed the curve's prediction",
        CapReason.STEP_INTERVAL: "the cap rises at most once a minute and falls at most once in 30 s",
        CapReason.UNACKNOWLEDGED: "not every Ready pod has acknowledged the cap",
    }
    return words.get(plan.term, "the planned cap")


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
