"""Text of a pool's status: demand, capacity, and control variables with their reasons. Pure."""

from collections.abc import Iterator, Mapping

from penstock_api.types.decision import ScalingStatus, StartStatus
from penstock_api.types.model import Task
from penstock_api.types.objectives import ObjectiveMetric
from penstock_api.types.scaling import ScalingMode
from penstock_api.types.status import EffectiveField
from penstock_kubectl.pool_context import PoolContext, in_force, objectives
from penstock_operator.decide.spec.live_fields import ALGORITHM, MAX_REPLICAS, MIN_REPLICAS, MODES
from penstock_operator.decide.spec.origins import ADJUSTED, KEPT, ROLLBACK

GOOD_WHEN_FALSE = frozenset({"BudgetLimited", "Stalled", "Reconciling"})
"""Conditions that are healthy when False, or absent."""
NO_ACTION = frozenset({"Manual", "Held", "Recommending", "NoReadyPods", "Waiting", "Leaving"})
"""Reasons without a remedy of conditions that are False, or True where False is healthy (docs/reference/conditions.md)."""
ACTION = frozenset({"ReplicasIgnored", "CapacityExhausted", "CurveInconsistent", "GatewayDegraded"})
"""Reasons with a remedy of conditions that are True."""
BOUND_BY = {
    "MaxReplicas": "spec.scaling.maxReplicas",
    "Policy": "a policy's bound on replicas",
    "GpuBudget": "a policy's GPU budget",
    "Cluster": "the cluster, which has no room",
    "Stabilization": "the stabilization window of scale-down",
    "RateLimit": "scaleDown.maxPercentPerMinute",
    "Mode": "scaling.mode Hold",
    "Signals": "the absence of signals",
}
Fact = tuple[str, str, str]
"""(name, value, note)."""
UNKNOWN = "not known yet"
NONE = "-"
SCALING_MODE, BATCHING_MODE = MODES
UNREQUESTED = (ADJUSTED, KEPT, ROLLBACK, "Schedule")
"""Origins of values that neither the pool nor a policy's default or bound requests as they are."""
LATENCIES = {
    ObjectiveMetric.REQUEST_LATENCY: "request",
    ObjectiveMetric.TIME_TO_FIRST_TOKEN: "first token",
    ObjectiveMetric.TIME_PER_OUTPUT_TOKEN: "token",
}

DEMAND_SOURCES = {
    "Gateway": "counted at the pool's listeners, held and refused requests too",
    "Pods": "counted by the pods",
}


def sentence(subject: PoolContext) -> str:
    """Return a summary of the pool's state, one sentence per line."""
    status, fields = subject.pool.status, in_force(subject)
    ready, desired = status.ready_replicas or 0, status.desired_replicas
    cap = None if status.batch is None else status.batch.cap
    text = f"{ready} of {desired if desired is not None else '?'} replicas are Ready, batch cap {cap or '?'}."
    text += f"\nscaling.mode {fields[SCALING_MODE].value}, {fields[ALGORITHM].value}"
    text += f"; batching.mode {fields[BATCHING_MODE].value}."
    bound = None if status.scaling is None else status.scaling.bound_by
    if bound is not None:
        text += f"\nThe count is limited by {bound_by(bound)}"
        until = status.scaling.hold_until if status.scaling else None
        text += f" until {until}." if until else "."
    return text


def bound_by(word: str) -> str:
    """Return the constraint as text; the word itself if a newer operator wrote it."""
    return BOUND_BY.get(word, word)


def demand(subject: PoolContext) -> Iterator[Fact]:
    """Yield the demand of the pool."""
    scaling = subject.pool.status.scaling or ScalingStatus()
    age = f"{scaling.signal_age_seconds} s old" if scaling.signal_age_seconds else ""
    yield "signals", scaling.source or UNKNOWN, age
    if scaling.demand_source is not None:
        yield "demand from", scaling.demand_source, DEMAND_SOURCES.get(scaling.demand_source, "")
    if scaling.held_requests:
        yield "held", f"{scaling.held_requests} requests", "at the gateway, until a pod is ready"
    if scaling.last_start is not None:
        yield "last start", *_start(scaling.last_start)
    yield (
        "demand now",
        _unit(scaling.rows_per_second, "rows/s"),
        "received, including rejected requests",
    )
    lead = "when a replica requested now would serve, with headroom"
    yield "forecast demand", _unit(scaling.forecast_rows_per_second, "rows/s"), lead
    yield "waiting", _unit(scaling.waiting, "requests"), "over all Ready pods"
    yield from _batch_work(scaling)
    yield "imbalance", scaling.imbalance or UNKNOWN, "demand of the busiest pod divided by the mean"


def _start(start: StartStatus) -> tuple[str, str]:
    """Return the whole time of a start from zero, and its parts."""
    parts = {
        "decision": start.decision_seconds,
        "scheduling": start.scheduling_seconds,
        "container": start.container_seconds,
        "model": start.model_seconds,
        "endpoint": start.endpoint_seconds,
        "first byte": start.first_byte_seconds,
    }
    whole = f"{sum(map(float, parts.values())):.1f} s"
    return whole, ", ".join(f"{part} {seconds}" for part, seconds in parts.items())


def _batch_work(scaling: ScalingStatus) -> Iterator[Fact]:
    batch_work = scaling.batch_work
    if batch_work is not None:
        lines = f"{batch_work.lines_left} lines, {batch_work.lines_per_second} lines/s"
        needs = f"{batch_work.replicas} replicas to end in time, {batch_work.added_replicas} added"
        yield "batch work", lines, needs


def service(subject: PoolContext) -> Iterator[Fact]:
    """Yield the service curve and the capacity of the pool."""
    scaling = subject.pool.status.scaling or ScalingStatus()
    generates = subject.pool.spec.model.task is Task.TEXT_GENERATION
    what = "a step of b sequences" if generates else "a batch of b rows"
    if scaling.curve is not None:
        line = scaling.curve
        curve = f"{line.intercept_milliseconds} + {line.milliseconds_per_row} b ms"
        fit = f"R2 {line.r_squared or '?'}, mean batch {line.mean_rows}, largest {line.largest_rows or '?'} rows"
        yield what, curve, fit
    else:
        yield what, UNKNOWN, "too few batches, or all of the same size"
    each = _unit(scaling.rows_per_second_per_replica, "rows/s")
    planned = f"at batches of {scaling.planned_cap}" if scaling.planned_cap else ""
    yield "capacity of a replica", each, planned
    target = (
        f"at most {scaling.utilization_target_percent} %"
        if scaling.utilization_target_percent
        else ""
    )
    yield "effective utilization", _unit(scaling.effective_utilization_percent, "%"), target
    yield "GPU utilization", _unit(scaling.gpu_utilization_percent, "%"), scaling.duty_source or ""
    yield (
        "predicted p99 latency",
        _unit(scaling.predicted_p99_milliseconds, "ms"),
        _objectives(subject),
    )
    yield "on time", _unit(scaling.on_time_percent, "%"), "of the last 10 minutes' requests"
    allowed = scaling.batch_time_target_milliseconds
    yield (
        "p99 batch time",
        _unit(scaling.batch_p99_milliseconds, "ms"),
        f"at most {allowed} ms" if allowed else "",
    )
    yield "start-up, p90", _unit(scaling.startup_p90_seconds, "s"), "from binding to Ready"


def _objectives(subject: PoolContext) -> str:
    """Return the objectives as text."""
    parts = [f"{LATENCIES[metric]} {target}" for metric, target in objectives(subject).items()]
    return f"objective: {', '.join(parts)}" if parts else "no objective"


def control_variables(subject: PoolContext) -> Iterator[Fact]:
    """Yield the replica count and the batch cap, with their reasons."""
    status, fields = subject.pool.status, in_force(subject)
    scaling = status.scaling or ScalingStatus()
    desired = NONE if status.desired_replicas is None else status.desired_replicas
    count = f"{status.ready_replicas or 0} Ready of {status.replicas or 0}, desired {desired}"
    yield "replicas", count, f"{scaling.replicas_term or ''} ({_between(fields)})"
    if scaling.bound_by is not None:
        until = f"until {scaling.hold_until}" if scaling.hold_until else ""
        yield "limited by", bound_by(scaling.bound_by), until
    batch = status.batch
    if batch is not None:
        acknowledged = f"{batch.acknowledged_pods or 0} pods acknowledged generation {batch.generation or NONE}"
        cap = NONE if batch.cap is None else f"{batch.cap}"
        if batch.recommended_cap not in (None, batch.cap):
            cap += f", recommended {batch.recommended_cap}"
        yield "batch cap", cap, f"{scaling.cap_term or ''}; {acknowledged}"
    for used in status.accelerators or ():
        yield used.resource_name, f"{used.used}", "in use, including starting and terminating pods"
    for policy in status.policies or ():
        yield "policy", policy.name, f"generation {policy.generation}"
    candidate = status.candidate
    if candidate is not None:
        hours = f"{candidate.replica_hours} replica hours, actual {candidate.actual_replica_hours}"
        yield (
            "in shadow",
            f"{candidate.replicas} replicas, cap {candidate.cap}",
            f"by {candidate.policy}: {hours}",
        )
    for each in fields.values():
        if each.origin.startswith(UNREQUESTED):
            yield "in force", f"spec.{each.field} {each.value}", each.origin
    for bound in status.bounded or ():
        yield (
            "bounded",
            bound.field,
            f"{bound.asked} requested, {bound.granted} granted by {bound.policy}",
        )


def variants(subject: PoolContext) -> Iterator[Fact]:
    """Yield the variants of the pool, with what one replica of each serves and costs, and the batch work of all."""
    cost = subject.pool.status.cost
    currency = (cost.currency or "") if cost is not None else ""
    for each in subject.pool.status.variants or ():
        serves = _unit(each.rows_per_second_per_replica, "rows/s a replica within the objective")
        price = UNKNOWN if each.per_replica_hour is None else f"{each.per_replica_hour} {currency}"
        cap = f", batch cap {each.cap}" if each.cap is not None else ""
        note = f"{serves}{cap}; price of a replica-hour {price.strip()}; {each.reason or 'new'}"
        yield each.name, f"{each.ready_replicas} Ready of {each.replicas}", note
    yield from _batch_work(subject.pool.status.scaling or ScalingStatus())


def _between(fields: Mapping[str, EffectiveField]) -> str:
    if fields[SCALING_MODE].value in (ScalingMode.AUTO, ScalingMode.HOLD):
        return f"between {fields[MIN_REPLICAS].value} and {fields[MAX_REPLICAS].value}"
    return f"fixed by spec.replicas {fields['replicas'].value}"


def _unit(value: str | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{value} {unit}"
