"""All children of a pool together: which exist, which are taken, and what is to be written in what order.

While a name is taken nothing is created, so a pool that cannot be whole is not begun; what the pool
already owns is still kept as it should be.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from penstock_api import names
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.config import PoolPeers
from penstock_operator.decide.manifests.config_map import settings
from penstock_operator.decide.manifests.deployment import deployment
from penstock_operator.decide.manifests.disruption_budget import disruption_budget
from penstock_operator.decide.manifests.metadata import Manifest, child_name, service_name
from penstock_operator.decide.manifests.network_policy import network_policy
from penstock_operator.decide.manifests.revision import number_of
from penstock_operator.decide.manifests.service import service
from penstock_operator.decide.manifests.service_account import service_account
from penstock_operator.decide.manifests.writes import child_write, delete, foreign
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.spec.live_fields import Fields, plausible
from penstock_operator.observed import ChildObject, PoolObject, PoolView

REVISIONS_KEPT = 5
"""Templates kept beside those in use, for people to look back at."""


def child_names(pool: PoolObject) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of every child whose name is fixed."""
    others = ("Deployment", "ConfigMap", "PodDisruptionBudget", "ServiceAccount", "NetworkPolicy")
    return (("Service", service_name(pool)), *((kind, child_name(pool)) for kind in others))


def conflicts(view: PoolView, peers: PoolPeers | None = None) -> tuple[ChildObject, ...]:
    """Return the objects under the names of the wanted children that this pool does not control."""
    wanted = (one for one in child_names(view.pool) if one[0] != "NetworkPolicy" or peers)
    held = (view.children.get(key) for key in wanted)
    return tuple(one for one in held if one is not None and foreign(one, view.pool))


def held_defaults(view: PoolView) -> Fields:
    """Return the policy defaults that the pool's own settings remember, or none."""
    held = view.children.get(("ConfigMap", child_name(view.pool)))
    if held is None or foreign(held, view.pool):
        return {}
    annotations = held.manifest.get("metadata", {}).get("annotations") or {}
    try:
        remembered = json.loads(annotations.get(names.ANNOTATION_POLICY_DEFAULTS, "{}"))
    except ValueError:
        return {}  # edited by hand: the next write heals it
    return _sane(remembered)


def _sane(remembered: Any) -> Fields:
    """Keep what a policy could have said: the annotation is within reach of the pool's author."""
    if not isinstance(remembered, dict):
        return {}
    return {k: v for k, v in remembered.items() if isinstance(k, str) and plausible(k, v)}


def family_writes(found: PoolOutcome, control_keys: Mapping[str, str]) -> tuple[ChildWrite, ...]:
    """Return every write that makes the pool's children what is wanted, in order."""
    view = found.view
    writes = [
        write
        for manifest in desired_manifests(found, control_keys)
        if (write := child_write(view.pool, _held(view, manifest), manifest)) is not None
    ]
    if found.conflicts:
        writes = [one for one in writes if one.write is not Write.CREATE or _history(one, found)]
    return (*writes, *_outlived(found), *_unwanted(found))


def desired_manifests(found: PoolOutcome, control_keys: Mapping[str, str]) -> Iterator[Manifest]:
    """Yield the manifests as they should be; what a pod needs to start comes before the Deployment."""
    pool, pinned = found.view.pool, found.pinned
    yield service_account(pool)
    if found.limits is not None:
        yield settings(pool, found.limits, control_keys, found.effective.policy_defaults or {})
    if pinned.template is not None and pinned.revision is not None:
        yield pinned.revision
        if pinned.may_start_pods or found.deployment is not None:
            yield deployment(pool, pinned.template, pinned.inputs, found.count, found.rollout)
    if found.peers is not None:
        yield network_policy(pool, found.peers)
    yield service(pool)
    yield disruption_budget(pool)


def _held(view: PoolView, manifest: Manifest) -> ChildObject | None:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if kind == "ControllerRevision":
        return next((one for one in view.revisions if one.name == name), None)
    return view.children.get((kind, name))


def _history(write: ChildWrite, found: PoolOutcome) -> bool:
    """Tell whether a creation only records the template of a Deployment that is there."""
    return write.kind == "ControllerRevision" and found.deployment is not None


def _unwanted(found: PoolOutcome) -> Iterator[ChildWrite]:
    """Yield the deletion of the NetworkPolicy, where pools are to have none any more."""
    pool = found.view.pool
    held = found.view.children.get(("NetworkPolicy", child_name(pool)))
    if found.peers is None and held is not None and not held.deleting and not foreign(held, pool):
        yield delete(held)


def _outlived(found: PoolOutcome) -> Iterator[ChildWrite]:
    """Yield deletions of old revisions that no pod runs."""
    current = found.pinned.revision
    if current is None:
        return
    used = {current["metadata"]["name"], *(pod.revision for pod in found.view.pods)}
    past = [one for one in found.view.revisions if one.name not in used and not one.deleting]
    newest_first = sorted(past, key=number_of, reverse=True)
    for one in newest_first[REVISIONS_KEPT:]:
        yield delete(one)
