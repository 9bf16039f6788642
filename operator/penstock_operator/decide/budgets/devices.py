"""Which devices a pool's pods hold: each what its own revision's template asks for, from when it is bound."""

from collections import Counter
from collections.abc import Mapping

from penstock_operator.decide.manifests.container import CONTAINER_NAME
from penstock_operator.decide.manifests.metadata import Manifest
from penstock_operator.decide.manifests.revision import template_of
from penstock_operator.observed import PoolView


def runtime_container(template: Manifest) -> Manifest:
    """Return the container of a pod template that serves."""
    containers: list[Manifest] = template["spec"]["containers"]
    return next((one for one in containers if one["name"] == CONTAINER_NAME), containers[0])


def devices(template: Manifest | None) -> Mapping[str, int]:
    """Return the extended resources that a pod of `template` asks for."""
    if not template:
        return {}
    limits = runtime_container(template).get("resources", {}).get("limits", {})
    return {name: int(count) for name, count in limits.items() if "/" in name}


def held_devices(view: PoolView, current: Manifest | None) -> tuple[Counter[str], Counter[str]]:
    """Return the devices of bound pods that stay and of those that terminate; `current` is the pinned template."""
    templates = {one.name: template_of(one) for one in view.revisions}
    staying, leaving = Counter[str](), Counter[str]()
    for (revision, terminating), pods in _bound(view).items():
        held = devices(templates.get(revision or "", current))
        counted = leaving if terminating else staying
        for resource, count in held.items():
            counted[resource] += pods * count
    return staying, leaving


def _bound(view: PoolView) -> Counter[tuple[str | None, bool]]:
    """Return how many pods are bound, by revision and by whether they terminate."""
    return Counter((pod.revision, pod.terminating) for pod in view.pods if pod.scheduled)
