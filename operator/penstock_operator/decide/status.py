"""A pool's status as it should read."""

from datetime import UTC, datetime

from penstock_api import names
from penstock_api.conditions import Condition, merge
from penstock_api.status import AcceleratorStatus, BatchStatus, PoolStatus, TemplateStatus
from penstock_operator.decide.children.container import CONTAINER_NAME
from penstock_operator.decide.children.environment import accelerator
from penstock_operator.decide.children.metadata import Manifest
from penstock_operator.decide.children.revision import revision_name, template_of
from penstock_operator.decide.findings import Findings
from penstock_operator.decide.limits import acknowledged

MAX_POLICIES, MAX_BOUNDED, MAX_ACCELERATORS = 64, 32, 8
"""The schema's own bounds on these lists."""


def rfc3339(now: float) -> str:
    """Return Unix seconds as the API server writes times."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pool_status(found: Findings, conditions: tuple[Condition, ...], now: float) -> PoolStatus:
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
        bounded=found.effective.bounded[:MAX_BOUNDED],
        conditions=merge(pool.status.conditions or (), conditions, pool.generation, rfc3339(now)),
        scaling=found.outcome.scaling_status,
        last_decision=found.outcome.last_decision,
    )


def _template(found: Findings) -> TemplateStatus | None:
    """Return the pinned template: its image by digest once a pod of it runs, by name before."""
    template = found.pinned.template
    if template is None:
        return None
    name = revision_name(template)
    running = (pod.image for pod in found.ready if pod.revision == name and pod.image)
    return TemplateStatus(image=next(running, _container(template)["image"]), revision=name)


def _container(template: Manifest) -> Manifest:
    containers: list[Manifest] = template["spec"]["containers"]
    return next((one for one in containers if one["name"] == CONTAINER_NAME), containers[0])


def accelerators(found: Findings) -> tuple[AcceleratorStatus, ...]:
    """Return the devices that the pool's pods hold now: terminating and surge pods counted.

    A pod holds what its own revision's template asks for, from when it is bound to a node.
    """
    wanted = accelerator(found.view.pool)
    used = {wanted.resource_name: 0}
    templates = {one.name: template_of(one) for one in found.view.revisions}
    current = found.pinned.template or {}
    for pod in found.view.pods:
        if not pod.scheduled:
            continue
        for name, count in _devices(templates.get(pod.revision or "", current)).items():
            used[name] = used.get(name, 0) + count
    listed = sorted(used.items(), key=lambda one: one[0] != wanted.resource_name)
    return tuple(
        AcceleratorStatus(resource_name=name, used=count)
        for name, count in listed[:MAX_ACCELERATORS]
    )


def _devices(template: Manifest) -> dict[str, int]:
    """Return the extended resources that a pod of `template` asks for."""
    if not template:
        return {}
    limits = _container(template).get("resources", {}).get("limits", {})
    return {name: int(count) for name, count in limits.items() if "/" in name}


def _batch(found: Findings) -> BatchStatus | None:
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
