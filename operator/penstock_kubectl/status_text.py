"""A pool's status in words: what is asked of it, what it can do, how its valves stand and why. Pure."""

from collections.abc import Iterator

from penstock_api.types.decision import ScalingStatus
from penstock_api.types.live import ScalingMode
from penstock_api.types.model import Task
from penstock_kubectl.pool_context import PoolContext
from penstock_operator.decide.spec.effective import EffectiveSpec, effective
from penstock_operator.decide.spec.law_settings import LawSettings

GOOD_WHEN_FALSE = frozenset({"Progressing", "BudgetLimited"})
"""Conditions whose being False is the good news."""
BOUND_BY = {
    "MaxReplicas": "spec.scaling.maxReplicas",
    "Policy": "a policy's bound on replicas",
    "GpuBudget": "a policy's GPU budget",
    "Cluster": "the cluster, which has no room",
    "Stabilization": "the hold before replicas are given back",
    "RateLimit": "scaleDown.maxPercentPerMinute",
    "Mode": "scaling.mode Hold",
    "Signals": "the absence of signals",
}
Fact = tuple[str, str, str]
"""(what, its value, what it means or why)."""
UNKNOWN = "not known yet"


def in_force(subject: PoolContext) -> EffectiveSpec:
    """Return the live fields in force for the pool."""
    return effective(subject.pool, subject.namespace_labels, subject.policies)


def sentence(subject: PoolContext) -> str:
    """Return the pool's state, a sentence a line."""
    status, spec = subject.pool.status, in_force(subject)
    ready, wanted = status.ready_replicas or 0, status.desired_replicas
    cap = None if status.batch is None else status.batch.cap
    text = f"{ready} of {wanted if wanted is not None else '?'} replicas are Ready, batch cap {cap or '?'}."
    text += f"\nscaling.mode {spec.scaling_mode.value}, {spec.algorithm.value}"
    text += f"; batching.mode {spec.batching_mode.value}."
    bound = None if status.scaling is None else status.scaling.bound_by
    if bound is not None:
        text += f"\nThe count is held back by {BOUND_BY[bound]}"
        until = status.scaling.hold_until if status.scaling else None
        text += f" until {until}." if until else "."
    return text


def demand(subject: PoolContext) -> Iterator[Fact]:
    """Yield what is asked of the pool."""
    seen = subject.pool.status.scaling or ScalingStatus()
    age = f"{seen.signal_age_seconds} s old" if seen.signal_age_seconds else ""
    yield "signals", seen.source or UNKNOWN, age
    yield "demand now", _unit(seen.rows_per_second, "rows/s"), "counted at the door, refused too"
    foretold = "when a replica asked for now would serve, with headroom"
    yield "demand expected", _unit(seen.forecast_rows_per_second, "rows/s"), foretold
    yield "waiting", _unit(seen.waiting, "requests"), "over all Ready pods"
    yield "imbalance", seen.imbalance or UNKNOWN, "the busiest pod's demand over the mean pod's"


def service(subject: PoolContext) -> Iterator[Fact]:
    """Yield what the pool can do."""
    seen, spec = subject.pool.status.scaling or ScalingStatus(), in_force(subject)
    generates = subject.pool.spec.model.task is Task.TEXT_GENERATION
    what = "a step of b sequences" if generates else "a batch of b rows"
    if seen.curve is not None:
        one = seen.curve
        curve = f"{one.intercept_milliseconds} + {one.milliseconds_per_row} b ms"
        fit = f"R2 {one.r_squared or '?'}, mean batch {one.mean_rows}, largest {one.largest_rows or '?'} rows"
        yield what, curve, fit
    else:
        yield what, UNKNOWN, "too few of them, or all of one size"
    each = _unit(seen.rows_per_second_per_replica, "rows/s")
    planned = f"at batches of {seen.planned_cap}" if seen.planned_cap else ""
    yield "a replica can serve", each, planned
    target = (
        f"may be {seen.utilization_target_percent} %" if seen.utilization_target_percent else ""
    )
    yield "effective utilisation", _unit(seen.effective_utilization_percent, "%"), target
    yield "GPU utilisation", _unit(seen.gpu_utilization_percent, "%"), seen.duty_source or ""
    yield "p99 latency foretold", _unit(seen.predicted_p99_milliseconds, "ms"), _wanted(spec.law)
    allowed = seen.batch_time_target_milliseconds
    yield (
        "p99 batch time",
        _unit(seen.batch_p99_milliseconds, "ms"),
        f"may be {allowed} ms" if allowed else "",
    )
    yield "start-up, p90", _unit(seen.startup_p90_seconds, "s"), "from binding to Ready"


def _wanted(law: LawSettings) -> str:
    """Return the objectives in words."""
    known = (
        ("request", law.objective_milliseconds),
        ("first token", law.first_token_milliseconds),
        ("token", law.output_token_milliseconds),
    )
    parts = [f"{what} {value} ms" for what, value in known if value is not None]
    return f"objective: {', '.join(parts)}" if parts else "no objective"


def valves(subject: PoolContext) -> Iterator[Fact]:
    """Yield how both valves stand, and what binds them."""
    status, spec = subject.pool.status, in_force(subject)
    seen = status.scaling or ScalingStatus()
    count = f"{status.ready_replicas or 0} Ready of {status.replicas or 0}, wanted {status.desired_replicas}"
    yield "replicas", count, f"{seen.replicas_term or ''} (between {_between(spec)})"
    if seen.bound_by is not None:
        until = f"until {seen.hold_until}" if seen.hold_until else ""
        yield "held back by", BOUND_BY[seen.bound_by], until
    batch = status.batch
    if batch is not None:
        obeyed = f"{batch.acknowledged_pods or 0} pods obey generation {batch.generation}"
        cap = f"{batch.cap}"
        if batch.recommended_cap not in (None, batch.cap):
            cap += f", recommended {batch.recommended_cap}"
        yield "batch cap", cap, f"{seen.cap_term or ''}; {obeyed}"
    for used in status.accelerators or ():
        yield used.resource_name, f"{used.used}", "held now, starting and stopping pods too"
    for one in status.policies or ():
        yield "policy", one.name, f"generation {one.generation}"
    tried = status.candidate
    if tried is not None:
        hours = f"{tried.replica_hours} replica hours, {tried.actual_replica_hours} in truth"
        yield (
            "in shadow",
            f"{tried.replicas} replicas, cap {tried.cap}",
            f"by {tried.policy}: {hours}",
        )
    for bound in status.bounded or ():
        yield (
            "bounded",
            bound.field,
            f"{bound.asked} asked, {bound.granted} granted by {bound.policy}",
        )


def _between(spec: EffectiveSpec) -> str:
    if spec.scaling_mode in (ScalingMode.AUTO, ScalingMode.HOLD):
        return f"{spec.law.min_replicas} and {spec.law.max_replicas}"
    return f"spec.replicas {spec.replicas} and no other"


def _unit(value: str | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{value} {unit}"
