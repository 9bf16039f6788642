"""The child objects of a pool: their names, name conflicts, and the writes of a pass in order.

While another owner has one of the names nothing is created, so that a pool is never half created; children that the
pool owns already are kept in their desired state.
"""

from collections.abc import Iterator, Mapping

from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.config import PoolPeers
from penstock_operator.decide.manifests.config_map import recorded_defaults, settings
from penstock_operator.decide.manifests.deployment import deployment
from penstock_operator.decide.manifests.disruption_budget import disruption_budget
from penstock_operator.decide.manifests.groups import leader_worker_set
from penstock_operator.decide.manifests.metadata import Manifest, child_name, service_name
from penstock_operator.decide.manifests.network_policy import network_policy
from penstock_operator.decide.manifests.revision import number_of
from penstock_operator.decide.manifests.service import service
from penstock_operator.decide.manifests.service_account import service_account
from penstock_operator.decide.manifests.workload import workload_key
from penstock_operator.decide.manifests.writes import child_write, delete, foreign
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.spec.live_fields import Fields
from penstock_operator.observed import ChildObject, PoolObject, PoolView

MAX_UNUSED_REVISIONS = 5
"""Templates kept in addition to those in use, as history."""


def child_names(pool: PoolObject) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of every child with a fixed name."""
    others = ("ConfigMap", "PodDisruptionBudget", "ServiceAccount", "NetworkPolicy")
    named = ((kind, child_name(pool)) for kind in others)
    return (("Service", service_name(pool)), workload_key(pool), *named)


def name_conflicts(view: PoolView, peers: PoolPeers | None = None) -> tuple[ChildObject, ...]:
    """Return the objects under the children's names that this pool does not control."""
    keys = (key for key in child_names(view.pool) if key[0] != "NetworkPolicy" or peers)
    present = (view.children.get(key) for key in keys)
    return tuple(item for item in present if item is not None and foreign(item, view.pool))


def stored_defaults(view: PoolView) -> Fields:
    """Return the policy defaults that an annotation of the pool's ConfigMap records; empty without one."""
    config_map = view.children.get(("ConfigMap", child_name(view.pool)))
    if config_map is None or foreign(config_map, view.pool):
        return {}
    return recorded_defaults(config_map.manifest)


def all_writes(outcome: PoolOutcome, control_keys: Mapping[str, str]) -> tuple[ChildWrite, ...]:
    """Return every write that brings the pool's children to their desired state, in order."""
    view = outcome.view
    writes = [
        write
        for manifest in desired_manifests(outcome, control_keys)
        if (write := child_write(view.pool, _live(view, manifest), manifest)) is not None
    ]
    if outcome.conflicts:
        writes = [
            write
            for write in writes
            if write.write is not Write.CREATE or _records_live_template(write, outcome)
        ]
    return (
        *writes,
        *_expired_revisions(outcome),
        *_unused_network_policy(outcome),
        *outcome.gateway.writes,
    )


def desired_manifests(outcome: PoolOutcome, control_keys: Mapping[str, str]) -> Iterator[Manifest]:
    """Yield the desired manifests; objects that a pod needs at startup come before the workload."""
    pool, pinned = outcome.view.pool, outcome.pinned
    yield service_account(pool)
    if outcome.limits is not None:
        defaults = outcome.effective.policy_defaults or {}
        yield settings(pool, outcome.limits, control_keys, defaults)
    if pinned.template is not None and pinned.revision is not None:
        yield pinned.revision
        if pinned.may_start_pods or outcome.workload is not None:
            build = leader_worker_set if pool.spec.pods_per_replica > 1 else deployment
            yield build(pool, pinned.template, pinned.inputs, outcome.count, outcome.rollout)
    if outcome.peers is not None:
        yield network_policy(pool, outcome.peers)
    yield service(pool, outcome.effective.service, outcome.gateway.route, outcome.gateway.hold)
    yield disruption_budget(pool)


def _live(view: PoolView, manifest: Manifest) -> ChildObject | None:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if kind == "ControllerRevision":
        return next((revision for revision in view.revisions if revision.name == name), None)
    return view.children.get((kind, name))


def _records_live_template(write: ChildWrite, outcome: PoolOutcome) -> bool:
    """Return whether a creation only records the template of an existing workload."""
    return write.kind == "ControllerRevision" and outcome.workload is not None


def _unused_network_policy(outcome: PoolOutcome) -> Iterator[ChildWrite]:
    """Yield the deletion of the NetworkPolicy where pools no longer have one."""
    pool = outcome.view.pool
    live = outcome.view.children.get(("NetworkPolicy", child_name(pool)))
    if outcome.peers is None and live is not None and not live.deleting and not foreign(live, pool):
        yield delete(live)


def _expired_revisions(outcome: PoolOutcome) -> Iterator[ChildWrite]:
    """Yield the deletions of old revisions that no pod runs."""
    current = outcome.pinned.revision
    if current is None:
        return
    used = {current["metadata"]["name"], *(pod.revision for pod in outcome.view.pods)}
    revisions = outcome.view.revisions
    past = [item for item in revisions if item.name not in used and not item.deleting]
    newest_first = sorted(past, key=number_of, reverse=True)
    for revision in newest_first[MAX_UNUSED_REVISIONS:]:
        yield delete(revision)
