"""Rollouts with and without a free device: surge, replacement, and the messages about them."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_operator.decide.manifests.rollout import helped_by_leaving
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.observed import PodObject, PodProblem
from tests.unit.operator.decide.world import World, failing, message, pod, pool, reason, settled

GPU = "nvidia.com/gpu"
NO_ROOM = (
    f"0/1 nodes are available: 1 Insufficient {GPU}. preemption: 0/1 nodes are available:"
    " 1 No preemption victims found for incoming pod."
)
SURGING, REPLACING = {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}


def rolling(strategy: str | None = None, replicas: int = 2) -> World:
    """Return a pool of ready pods with an edited template."""
    more: dict[str, Any] = {"rollout": {"strategy": strategy}} if strategy else {}
    world = settled(pool=pool(replicas=replicas, **more))
    world.edit_spec(template={"labels": {"v": "2"}})
    world.settle()
    return world


def unplaced(world: World, *, seconds: float, text: str = NO_ROOM) -> PodObject:
    return replace(
        failing("new", "Unschedulable", text, revision=world.revision),
        scheduled=False,
        unschedulable_since=world.now - seconds,
        problem=PodProblem("Unschedulable", text),
    )


def step(world: World) -> Any:
    return world.deployment["spec"]["strategy"]["rollingUpdate"]


def events(plan: PoolPlan) -> list[str]:
    return [event.reason for event in plan.events]


def test_a_rollout_surges_by_one_while_there_may_be_room() -> None:
    world = rolling()
    assert step(world) == SURGING
    world.pods = (*world.pods, unplaced(world, seconds=29))
    world.settle()
    assert step(world) == SURGING


def test_a_surge_without_room_for_half_a_minute_replaces_a_pod_with_an_event() -> None:
    world = rolling()
    world.pods = (*world.pods, unplaced(world, seconds=30))
    plan = world.settle()
    assert step(world) == REPLACING
    (event,) = [item for item in plan.events if item.reason == "ReplacingWithoutSurge"]
    assert f"Insufficient {GPU}" in event.message


def test_a_surge_without_room_waits_for_the_pods_that_terminate() -> None:
    world = rolling()
    leaves = replace(pod("old"), terminating=True)
    world.pods = (*world.pods, unplaced(world, seconds=60), leaves)
    world.settle()
    assert step(world) == SURGING
    world.pods = world.pods[:-1]
    world.now += 10  # the scheduler places a pod some seconds after the device is free
    world.settle()
    assert step(world) == SURGING
    world.now += 25
    world.settle()
    assert step(world) == REPLACING


def test_a_pod_on_a_lost_node_holds_no_rollout_back() -> None:
    world = rolling()
    leaves = replace(pod("on a lost node"), terminating=True)
    world.pods = (*world.pods, unplaced(world, seconds=60), leaves)
    world.settle()
    grace = world.deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    world.now += grace
    world.settle()
    assert step(world) == SURGING
    world.now += 30
    world.settle()
    assert step(world) == REPLACING


def test_a_rollout_that_gave_up_its_surge_replaces_pods_until_its_end_only() -> None:
    world = rolling(replicas=3)
    world.pods = (*world.pods, unplaced(world, seconds=30))
    world.settle()
    world.pods = (*world.pods[:2], pod("new", revision=world.revision))
    world.states.clear()  # another operator became the leader
    plan = world.settle()
    assert step(world) == REPLACING
    assert "ReplacingWithoutSurge" not in events(plan)
    assert "stopping one old pod at a time" in message(plan, "Progressing")

    world.pods = tuple(pod(f"new-{number}", revision=world.revision) for number in range(3))
    world.settle()
    assert step(world) == SURGING
    world.edit_spec(template={"labels": {"v": "3"}})
    world.settle()
    assert step(world) == SURGING


def test_a_pod_that_fits_no_node_ends_no_serving_pod() -> None:
    world = rolling()
    text = (
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption:"
        " 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    world.pods = (*world.pods, unplaced(world, seconds=600, text=text))
    plan = world.settle()
    assert step(world) == SURGING
    assert reason(plan, "Progressing") == "False/Unschedulable"


TAIL = "preemption: 0/2 nodes are available: {}."
HOPEFUL = TAIL.format(
    "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling"
)
HOPELESS = TAIL.format("2 Preemption is not helpful for scheduling")


@pytest.mark.parametrize(
    ("text", "helped"),
    [
        (NO_ROOM, True),
        (f"0/1 nodes are available: 1 Insufficient {GPU}.", True),
        ("0/2 nodes are available: 1 Too many pods, 1 Insufficient cpu.", True),
        (f"0/2 nodes are available: 1 Insufficient {GPU}, 1 untolerated taint. {HOPEFUL}", True),
        (f"0/2 nodes are available: 2 Insufficient {GPU}. {HOPELESS}", False),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {a: b}.", False),
        ('persistentvolumeclaim "weights" not found', False),
    ],
)
def test_the_schedulers_message_shows_whether_the_end_of_a_pod_would_help(
    text: str, helped: bool
) -> None:
    assert helped_by_leaving(text) is helped


def test_surge_waits_for_room_however_long_it_takes() -> None:
    world = rolling("Surge")
    world.pods = (*world.pods, unplaced(world, seconds=600))
    plan = world.settle()
    assert step(world) == SURGING
    assert reason(plan, "Progressing") == "False/Unschedulable"


def test_replace_ends_a_pod_at_once() -> None:
    assert step(rolling("Replace")) == REPLACING


def test_an_exceeded_resource_quota_counts_like_a_full_budget() -> None:
    world = rolling()
    key = ("Deployment", "chat-penstock")
    full = {
        "type": "ReplicaFailure",
        "status": "True",
        "message": 'pods "x" is forbidden: exceeded quota: gpus',
        "lastTransitionTime": "2027-01-15T07:59:00Z",
    }
    world.children[key] = replace(world.children[key], status={"conditions": [full]})
    plan = world.settle()
    assert step(world) == REPLACING
    assert "ReplacingWithoutSurge" in events(plan)


def test_a_broken_template_keeps_the_previous_pods_and_reports_how_to_undo_it() -> None:
    world = settled(pool=pool(replicas=2))
    before = world.revision
    world.edit_spec(runtime={"image": "registry.example/missing:1"})
    world.settle()
    broken = failing("new", "ImagePullBackOff", "not found", revision=world.revision)
    world.pods = (*world.pods, broken)
    plan = world.settle()
    text = message(plan, "Progressing")
    assert "2 pods of the previous template still serve" in text
    assert f"to return to revision {before}, undo the edit" in text

    world.edit_spec(runtime={})
    world.settle()
    assert world.revision == before


def test_undoing_an_edit_restores_the_stored_template_under_a_newer_operator() -> None:
    world = settled()
    before = world.revision
    world.config = replace(world.config, default_runtime_image="registry.example/broken:2")
    world.edit_spec(template={"labels": {"v": "2"}})
    world.settle()
    world.edit_spec(template={})
    for _ in range(3):
        plan = world.settle()
        assert world.revision == before
    assert reason(plan, "UpToDate") == "False/NewTemplateAvailable"
    assert world.run().writes == ()
