"""A pool's status as it should read."""

from datetime import UTC, datetime

from penstock_api import names
from penstock_api.conditions import Condition, merge
from penstock_api.types.status import AcceleratorStatus, BatchStatus, PoolStatus, TemplateStatus
from penstock_operator.decide.budgets.devices import held_devices, runtime_container
from penstock_operator.decide.limits import acknowledged
from penstock_operator.decide.manifests.environment import accelerator
from penstock_operator.decide.manifests.revision import revision_name
from penstock_operator.decide.plan import PlanFigures
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.scaling.signals.attainment import Attainment

MAX_POLICIES, MAX_BOUNDED, MAX_ACCELERATORS = 64, 32, 8
"""The schema's own bounds on these lists."""
LIMITS = frozenset({"MaxReplicas", "Policy", "GpuBudget", "Cluster"})
"""What keeps replicas from a pool that asks for more."""


def rfc3339(now: float) -> str:
    """Return Unix seconds as the API server writes times."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pool_status(found: PoolOutcome, conditions: tuple[Condition, ...], now: float) -> PoolStatus:
    """Return the wanted status; whether a change is worth a write is for `act/` to say."""
    pool = found.view.pool
    return PoolStatus(
        observed_generation=pool.generation,
        replicas=len(found.pods),
        ready_replicas=len(found.ready),
        desired_replicas=found.outcome.desired_replicas,
        selector=f"{names.LABEL_POOL_UID}={pool.uid}",
        template=_template(found),
        accelerators=accelerators(found),
        batch=_batch(found),
        policies=found.effective.policies[:MAX_POLICIES],
        bounded=found.bounded[:MAX_BOUNDED],
        conditions=merge(pool.status.conditions or (), conditions, pool.generation, rfc3339(now)),
        scaling=found.outcome.scaling_status,
        last_decision=found.outcome.last_decision,
        candidate=found.candidate,
    )


def _template(found: PoolOutcome) -> TemplateStatus | None:
    """Return the pinned template: its image by digest once a pod of it runs, by name before."""
    template = found.pinned.template
    if template is None:
        return None
    name = revision_name(template)
    running = (pod.image for pod in found.ready if pod.revision == name and pod.image)
    return TemplateStatus(image=next(running, runtime_container(template)["image"]), revision=name)


def accelerators(found: PoolOutcome) -> tuple[AcceleratorStatus, ...]:
    """Return the devices that the pool's pods hold now: terminating and surge pods counted."""
    wanted = accelerator(found.view.pool).resource_name
    staying, leaving = held_devices(found.view, found.pinned.template)
    used = {wanted: 0, **(staying + leaving)}
    listed = sorted(used.items(), key=lambda one: one[0] != wanted)
    return tuple(
        AcceleratorStatus(resource_name=name, used=count)
        for name, count in listed[:MAX_ACCELERATORS]
    )


def _batch(found: PoolOutcome) -> BatchStatus | None:
    limits = found.limits
    if limits is None:
        return found.view.pool.status.batch  # its generation must outlive a lost ConfigMap
    obeying = sum(acknowledged(found.view, pod, limits) for pod in found.ready)
    return BatchStatus(
        cap=limits.max_batch_size,
        recommended_cap=found.outcome.recommended_cap,
        generation=limits.generation,
        acknowledged_pods=obeying,
    )


def figures(found: PoolOutcome, attained: Attainment) -> PlanFigures:
    """Return the figures of one pool's pass."""
    outcome = found.outcome
    decision, seen = outcome.decision, outcome.decision.seen
    return PlanFigures(
        desired=decision.replicas,
        granted=found.replicas,
        at_limit=outcome.scaling_status.bound_by in LIMITS,
        signals_absent=bool(found.ready) and not decision.metrics_available,
        contested=found.contested,
        demand=seen.rows_per_second,
        forecast=seen.forecast_rows_per_second,
        forecast_error=seen.forecast_miss,
        utilization=seen.utilization,
        imbalance=seen.imbalance,
        startup_seconds=seen.startup_seconds,
        signal_age_seconds=seen.signal_age_seconds,
        objective_good=attained.good,
        objective_total=attained.total,
    )
