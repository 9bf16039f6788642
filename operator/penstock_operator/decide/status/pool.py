"""The desired status of a pool, and the values of its metrics."""

from penstock_api import names
from penstock_api.conditions import Condition, merge
from penstock_api.types.model import Task
from penstock_api.types.status import AcceleratorStatus, BatchStatus, PoolStatus, TemplateStatus
from penstock_operator.decide.budgets.devices import devices_in_use, runtime_container
from penstock_operator.decide.limits import acknowledged
from penstock_operator.decide.manifests.metadata import service_name, serving_selector
from penstock_operator.decide.manifests.pod_template.environment import accelerator
from penstock_operator.decide.manifests.revision import revision_name
from penstock_operator.decide.plan import PlanFigures
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.scaling.report.conditions import rfc3339
from penstock_operator.decide.scaling.report.status import bound_by, scaling_status
from penstock_operator.decide.scaling.signals.attainment import Attainment, Objectives
from penstock_operator.decide.status.model_backend import model_backend_status
from penstock_operator.observed import PoolObject

MAX_POLICIES, MAX_BOUNDED, MAX_ACCELERATORS = 64, 32, 8
"""Maximum lengths of these lists in the schema."""
OPENAI_TASKS = frozenset({Task.TEXT_GENERATION, Task.EMBEDDING})
LIMITS = frozenset({"MaxReplicas", "Policy", "GpuBudget", "Cluster"})
"""Reasons in `boundBy` for which a pool has fewer replicas than it requests."""


def pool_status(outcome: PoolOutcome, conditions: tuple[Condition, ...], now: float) -> PoolStatus:
    """Return the desired status; `act/` decides whether a change is worth a write."""
    pool = outcome.view.pool
    return PoolStatus(
        observed_generation=pool.generation,
        replicas=len(outcome.pods),
        ready_replicas=len(outcome.ready),
        ready_replicas_of=f"{len(outcome.ready)}/{outcome.replicas}",
        desired_replicas=outcome.scaling.desired_replicas,
        selector=",".join(f"{key}={value}" for key, value in serving_selector(pool).items()),
        model=pool.spec.model.name or pool.name,
        url=url(pool),
        prometheus_url=outcome.view.signals.server or None,
        scaling_mode=outcome.effective.scaling_mode.value,
        unset_scaling_mode=pool.status.unset_scaling_mode,
        template=_template(outcome),
        accelerators=accelerators(outcome),
        batch=_batch(outcome),
        model_backend=model_backend_status(outcome.view, outcome.ready),
        policies=outcome.effective.policies[:MAX_POLICIES],
        bounded=outcome.bounded[:MAX_BOUNDED],
        effective=outcome.effective.reported,
        conditions=merge(pool.status.conditions or (), conditions, pool.generation, rfc3339(now)),
        scaling=scaling_status(
            outcome.scaling.reported,
            outcome.view.signals,
            outcome.on_time,
            outcome.view.gateway,
            pool.status.scaling,
        ),
        last_decision=outcome.scaling.last_decision,
        candidate=outcome.candidate,
        cost=outcome.cost,
    )


def url(pool: PoolObject) -> str:
    """Return the base URL of a pool's clients inside the cluster: with `/v1` for tasks of the OpenAI API."""
    secure = pool.spec.tls is not None
    path = "/v1" if pool.spec.model.task in OPENAI_TASKS else ""
    return names.service_url(service_name(pool), pool.namespace, secure=secure) + path


def _template(outcome: PoolOutcome) -> TemplateStatus | None:
    """Return the pinned template: its image by digest once one of its pods runs, by name before."""
    template = outcome.pinned.template
    if template is None:
        return None
    name = revision_name(template)
    running = (pod.image for pod in outcome.ready if pod.revision == name and pod.image)
    return TemplateStatus(image=next(running, runtime_container(template)["image"]), revision=name)


def accelerators(outcome: PoolOutcome) -> tuple[AcceleratorStatus, ...]:
    """Return the devices that the pool's pods use now, terminating and surge pods included."""
    current = accelerator(outcome.view.pool).resource_name
    staying, leaving = devices_in_use(outcome.view, outcome.pinned.template)
    used = {current: 0, **(staying + leaving)}
    listed = sorted(used.items(), key=lambda item: item[0] != current)
    return tuple(
        AcceleratorStatus(resource_name=name, used=count)
        for name, count in listed[:MAX_ACCELERATORS]
    )


def _batch(outcome: PoolOutcome) -> BatchStatus | None:
    limits = outcome.limits
    if limits is None:
        return outcome.view.pool.status.batch  # its generation has to outlive a lost ConfigMap
    acknowledged_pods = sum(acknowledged(outcome.view, pod, limits) for pod in outcome.ready)
    return BatchStatus(
        cap=limits.max_batch_size,
        recommended_cap=outcome.scaling.recommended_cap,
        generation=limits.generation,
        acknowledged_pods=acknowledged_pods,
    )


def figures(
    outcome: PoolOutcome, attained: Attainment, startable: int | None, *, stalled: bool
) -> PlanFigures:
    """Return the values of one pool's metrics; `startable` are its pods if no more can start for now."""
    decision, seen = outcome.scaling.decision, outcome.scaling.decision.observations
    return PlanFigures(
        desired=decision.replicas,
        granted=outcome.replicas,
        at_limit=bound_by(outcome.scaling.reported) in LIMITS,
        signals_absent=bool(outcome.ready) and not decision.metrics_available,
        contested=outcome.contested,
        stalled=stalled,
        demand=seen.rows_per_second,
        forecast=seen.forecast_rows_per_second,
        forecast_error=seen.forecast_miss,
        utilization=seen.utilization,
        imbalance=seen.imbalance if seen.rows_per_second else None,
        startup_seconds=seen.startup_seconds,
        signal_age_seconds=seen.signal_age_seconds,
        objective_good=attained.good,
        objective_total=attained.total,
        cost=outcome.cost,
        objective_target=1 - Objectives.of(outcome.effective.law).late_share,
        variant=outcome.variant._replace(startable=startable),
    )
