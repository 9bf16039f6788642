"""Devices that a pool's pods use: each pod counts from binding, with the devices of its own revision's template.

Where a replica has several pods, its leader counts for all of them.
"""

from collections import Counter
from collections.abc import Mapping

from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.pod_template.container import CONTAINER_NAME
from penstock_operator.decide.manifests.revision import template_of
from penstock_operator.decide.manifests.workload import pods_in_replica
from penstock_operator.observed import PoolView


def runtime_container(template: Manifest) -> Manifest:
    """Return the runtime container of a pod template."""
    containers: list[Manifest] = template["spec"]["containers"]
    return next((item for item in containers if item["name"] == CONTAINER_NAME), containers[0])


def devices(template: Manifest | None) -> Mapping[str, int]:
    """Return the extended resources that a replica of `template` requests."""
    if not template:
        return {}
    limits = runtime_container(template).get("resources", {}).get("limits", {})
    pods = pods_in_replica(template)
    return {name: pods * int(count) for name, count in limits.items() if "/" in name}


def devices_in_use(view: PoolView, current: Manifest | None) -> tuple[Counter[str], Counter[str]]:
    """Return the devices of bound pods that stay and of those that terminate; `current` is the pinned template."""
    templates = {revision.name: template_of(revision) for revision in view.revisions}
    staying, leaving = Counter[str](), Counter[str]()
    for (revision, terminating), pods in _bound(view).items():
        per_pod = devices(templates.get(revision or "", current))
        counted = leaving if terminating else staying
        for resource, count in per_pod.items():
            counted[resource] += pods * count
    return staying, leaving


def _bound(view: PoolView) -> Counter[tuple[str | None, bool]]:
    """Return the number of bound pods, by revision and by whether they terminate."""
    return Counter((pod.revision, pod.terminating) for pod in view.pods if pod.scheduled)
