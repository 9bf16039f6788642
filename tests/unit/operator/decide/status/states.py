"""Every state of a pool that GitOps tools meet, as the planner reports it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock_api.conditions import UNOBSERVED
from penstock_api.pod_contract import Loading, LoadStage
from penstock_operator.observed import Acknowledgement, PodProblem
from tests.unit.operator.decide.world import World, failing, pod, policy, pool, settled

NO_ROOM = PodProblem("Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
AUTO = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 4}


def new() -> World:
    """Return a pool that no operator has observed."""
    return World()


def loading() -> World:
    """Return a pool whose first replica downloads its model."""
    world = settled()
    world.pods = (pod("chat-1", ready=False, revision=world.revision),)
    report = Loading(stage=LoadStage.FETCHING, loaded_bytes=3_100, total_bytes=14_200)
    world.acknowledgements["uid-chat-1"] = Acknowledgement(None, None, loading=report)
    return world


def serving() -> World:
    return settled(pool=pool(replicas=2))


def scaling_to_the_spec() -> World:
    """Return a pool whose `spec.replicas` was raised from 1 to 3."""
    world = settled()
    world.edit_spec(replicas=3)
    return _with_one_more_pod(world)


def scaling_to_the_minimum() -> World:
    """Return a pool in mode Auto whose `minReplicas` was raised from 1 to 3."""
    world = settled(pool=pool(scaling=AUTO))
    world.edit_spec(scaling={**AUTO, "minReplicas": 3})
    return _with_one_more_pod(world)


def scaling_with_the_load() -> World:
    """Return a pool in mode Auto with one replica, its minimum, whose law requires two more."""
    world = scaling_to_the_minimum()
    world.settle()
    world.edit_spec(scaling=AUTO)
    return world


def scaling_without_room() -> World:
    """Return a pool as above, for whose growth no node has room since an hour."""
    world = scaling_with_the_load()
    waiting = replace(world.pods[1], problem=NO_ROOM, unschedulable_since=world.now - 3600)
    world.pods = (world.pods[0], waiting)
    return world


def rolling() -> World:
    world = settled(pool=pool(replicas=2))
    world.edit_spec(template={"labels": {"v": "2"}})
    return world


def image_missing() -> World:
    world = settled()
    world.pods = (failing("chat-1", "ImagePullBackOff", "not found", revision=world.revision),)
    return world


def rolling_to_a_missing_image() -> World:
    world = settled()
    world.edit_spec(runtime={"image": "registry.example/missing:1"})
    world.settle()
    broken = failing("chat-2", "ImagePullBackOff", "not found", revision=world.revision)
    world.pods = (*world.pods, broken)
    return world


def unschedulable(seconds: float) -> World:
    """Return a pool whose only pod has waited for a node for `seconds`."""
    world = settled()
    since = world.now - seconds
    waiting = pod(
        "chat-1", ready=False, scheduled=False, problem=NO_ROOM, unschedulable_since=since
    )
    world.pods = (replace(waiting, revision=world.revision),)
    return world


def model_fault() -> World:
    world = settled()
    world.pods = (failing("chat-1", "ModelLoadFailed", "no such factory", revision=world.revision),)
    return world


def zero_replicas() -> World:
    return settled(pool=pool(replicas=0))


def zero_while_a_pod_stops() -> World:
    """Return a pool that was scaled to zero, before its pod is terminating."""
    world = settled()
    world.edit_spec(replicas=0)
    return world


def policy_conflict() -> World:
    """Return a serving pool on whose default two policies of equal priority disagree."""
    depths = (("a", 10), ("b", 20))
    pair = tuple(
        policy(name, defaults={"batching": {"maxQueueDepth": depth}}) for name, depth in depths
    )
    return settled(policies=pair)


def image_not_allowed() -> World:
    """Return a serving pool whose edit of the image a policy forbids."""
    world = settled()
    world.policies = (
        policy("trusted", bounds={"template": {"allowedImages": ["registry.example/penstock*"]}}),
    )
    world.edit_spec(runtime={"image": "elsewhere.example/runtime:1"})
    return world


@dataclass(frozen=True)
class State:
    """A state, and what tools read of it."""

    world: Callable[[], World]
    condition: str = ""
    """`Stalled/<reason>` or `Reconciling/<reason>`; empty where neither is present."""
    kstatus: str = "Current"
    argocd: str = "Healthy"
    flux: str = ""
    """Empty: as kstatus."""


def _failed(world: Callable[[], World], reason: str) -> State:
    return State(world, f"Stalled/{reason}", "Failed", "Degraded")


def _in_progress(world: Callable[[], World], reason: str) -> State:
    return State(world, f"Reconciling/{reason}", "InProgress", "Progressing")


STATES: Mapping[str, State] = {
    "loading model": _in_progress(loading, "ModelLoading"),
    "serving": State(serving),
    "scaling to spec.replicas": _in_progress(scaling_to_the_spec, "Scaling"),
    "scaling to minReplicas": _in_progress(scaling_to_the_minimum, "Scaling"),
    "scaling with the load": State(scaling_with_the_load),
    "scaling with the load, without room": State(scaling_without_room),
    "rolling": _in_progress(rolling, "RollingOut"),
    "image missing": _failed(image_missing, "ImagePullFailed"),
    "rolling to a missing image": _failed(rolling_to_a_missing_image, "ImagePullFailed"),
    "unschedulable for 9 minutes": _in_progress(lambda: unschedulable(540), "Unschedulable"),
    "unschedulable for 10 minutes": _failed(lambda: unschedulable(600), "Unschedulable"),
    "model fault": _failed(model_fault, "ModelLoadFailed"),
    "zero replicas": State(zero_replicas, "", "InProgress", "Healthy", "Current"),
    "zero while a pod stops": _in_progress(zero_while_a_pod_stops, "Scaling"),
    "policy conflict": State(policy_conflict),
    "image not allowed": _failed(image_not_allowed, "TemplateNotAllowed"),
}
"""States after a pass of the operator; `unobserved`, `edited` and `deleted` are objects without one."""


def observed(world: World) -> dict[str, Any]:
    """Return the pool as the API server returns it after a pass."""
    status = world.run().status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _object(world, status)


def unobserved() -> dict[str, Any]:
    """Return a pool as the API server returns it before the operator's first pass."""
    return _object(new(), {"observedGeneration": UNOBSERVED})


def edited() -> dict[str, Any]:
    """Return a serving pool whose last edit the operator has not observed."""
    pool = observed(serving())
    pool["metadata"]["generation"] += 1
    return pool


def deleted() -> dict[str, Any]:
    """Return a pool whose deletion waits for its children."""
    pool = observed(serving())
    pool["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    return pool


def _object(world: World, status: Mapping[str, Any]) -> dict[str, Any]:
    meta = world.pool
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "generation": meta.generation,
        },
        "spec": meta.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": dict(status),
    }


def _with_one_more_pod(world: World) -> World:
    world.settle()
    world.pods = (*world.pods, pod("chat-2", ready=False, revision=world.revision))
    return world
