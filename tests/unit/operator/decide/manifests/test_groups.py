"""A pool whose replicas are groups of pods: its LeaderWorkerSet, and what counts one group as one replica."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock_api import names
from penstock_operator.decide.config import PoolPeers
from tests.unit.operator.decide.world import (
    CONFIG,
    World,
    failing,
    message,
    pod,
    policy,
    pool,
    reason,
    written,
)

GROUPS = replace(CONFIG, groups=True)
KEY = ("LeaderWorkerSet", "chat-penstock")
GPU = "nvidia.com/gpu"
MODEL = {
    "source": {"type": "Module", "module": {"factory": "models:create"}},
    "task": "TextGeneration",
}


def grouped(nodes: int = 2, **more: Any) -> World:
    spec = {
        "model": MODEL,
        "parallelism": {"tensor": 4, "nodes": nodes},
        "accelerator": {"count": 4 // nodes},
        **more,
    }
    world = World(pool=pool(**spec), config=GROUPS)
    world.settle()
    return world


def spec_of(world: World) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = world.children[KEY].manifest["spec"]
    return spec


def templates(world: World) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the template of the leaders and that of the workers."""
    template = spec_of(world)["leaderWorkerTemplate"]
    return template["leaderTemplate"], template["workerTemplate"]


def step(world: World) -> Any:
    return spec_of(world)["rolloutStrategy"]["rollingUpdateConfiguration"]


def leaders(world: World, count: int) -> tuple[Any, ...]:
    revision = templates(world)[0]["metadata"]["labels"][names.LABEL_REVISION]
    return tuple(pod(f"chat-penstock-{number}", revision=revision) for number in range(count))


def test_a_pool_over_nodes_has_a_leader_worker_set_and_no_deployment() -> None:
    world = grouped(replicas=3)
    assert {kind for kind, _ in world.children} >= {"LeaderWorkerSet", "Service", "ConfigMap"}
    assert ("Deployment", "chat-penstock") not in world.children
    spec = spec_of(world)
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (3, 2)
    assert spec["startupPolicy"] == "LeaderCreated"
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "None"
    assert step(world) == {"maxSurge": 0, "maxUnavailable": 1, "partition": 0}
    assert world.run().writes == ()


def test_only_leaders_are_selected_and_scraped() -> None:
    world = grouped()
    service = world.children["Service", "chat"].manifest["spec"]["selector"]
    assert service == {names.LABEL_POOL_UID: "uid-chat", names.LABEL_WORKER_INDEX: "0"}
    assert world.run().status.selector == ",".join(f"{k}={v}" for k, v in service.items())
    leader, worker = templates(world)
    assert leader["metadata"]["labels"][names.LABEL_POOL] == "chat"
    assert names.LABEL_POOL not in worker["metadata"]["labels"]
    assert worker["metadata"]["labels"][names.LABEL_POOL_UID] == "uid-chat"
    (container,) = worker["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["worker"]
    probes = [container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    assert {probe["httpGet"]["port"] for probe in probes} == {"worker"}
    assert container["env"] == leader["spec"]["containers"][0]["env"]


def test_the_budget_counts_every_pod_of_a_group() -> None:
    world = grouped()
    spec = world.children["PodDisruptionBudget", "chat-penstock"].manifest["spec"]
    assert spec["selector"] == {"matchLabels": {names.LABEL_POOL_UID: "uid-chat"}}


def test_pods_of_a_group_reach_each_other_on_every_port() -> None:
    world = grouped()
    world.config = replace(GROUPS, peers=PoolPeers(cluster=({"podSelector": {}},)))
    world.settle()
    rules = world.children["NetworkPolicy", "chat-penstock"].manifest["spec"]["ingress"]
    own = {"podSelector": {"matchLabels": {names.LABEL_POOL_UID: "uid-chat"}}}
    assert rules[2:] == [{"from": [own]}]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("Surge", {"maxSurge": 1, "maxUnavailable": 0, "partition": 0}),
        ("Replace", {"maxSurge": 0, "maxUnavailable": 1, "partition": 0}),
    ],
)
def test_a_rollout_surges_or_replaces_by_one_group(strategy: str, expected: Any) -> None:
    world = grouped(rollout={"strategy": strategy})
    world.pods = leaders(world, 1)
    world.edit_spec(template={"labels": {"v": "2"}})
    world.settle()
    assert step(world) == expected
    assert all(template["metadata"]["labels"]["v"] == "2" for template in templates(world))


def test_the_surge_of_a_rollout_serves_until_the_controller_has_replaced_every_group() -> None:
    world = grouped()
    world.policies = (policy("few", gpuBudgets=[{"resourceName": GPU, "count": 8}]),)
    world.pods = leaders(world, 1)
    world.settle()
    world.edit_spec(template={"labels": {"v": "2"}})
    world.settle()
    world.policies = (policy("few", gpuBudgets=[{"resourceName": GPU, "count": 4}]),)
    world.pods = leaders(world, 1)  # the surge: the replaced group is terminating
    updating = [{"type": "UpdateInProgress", "status": "True"}]
    world.children[KEY] = replace(world.children[KEY], status={"conditions": updating})
    plan = world.run()
    assert step(world)["maxSurge"] == 1
    assert plan.writes == ()
    assert reason(plan, "Progressing") == "True/RollingOut"
    world.children[KEY] = replace(world.children[KEY], status={})
    world.settle()
    assert step(world)["maxSurge"] == 0
    assert reason(world.run(), "Progressing") == "False/Settled"


def test_a_rollout_without_a_device_in_the_budget_waits_behind_the_partition() -> None:
    world = grouped(replicas=2, rollout={"strategy": "Surge"})
    world.policies = (policy("few", gpuBudgets=[{"resourceName": GPU, "count": 8}]),)
    world.pods = leaders(world, 2)
    world.settle()
    world.edit_spec(template={"labels": {"v": "2"}})
    world.settle()
    assert step(world) == {"maxSurge": 0, "maxUnavailable": 1, "partition": 2}
    assert reason(world.run(), "Progressing") == "False/RolloutWaits"


def test_a_replica_has_the_devices_and_the_price_of_all_its_pods() -> None:
    world = grouped(replicas=2)
    prices = [{"name": "h100", "resourceName": GPU, "perHour": "2.50"}]
    world.policies = (
        policy("few", gpuBudgets=[{"resourceName": GPU, "count": 7}]),
        policy("prices", pricing={"currency": "USD", "prices": prices}),
    )
    world.pods = leaders(world, 1)
    world.settle()
    plan = world.run()
    assert spec_of(world)["replicas"] == 1
    assert "(4) granted" in message(plan, "BudgetLimited")
    assert [each.used for each in plan.status.accelerators or ()] == [4]
    assert plan.status.cost is not None
    assert plan.status.cost.per_replica_hour == "10.00"


def test_a_replica_that_other_writers_remove_is_restored() -> None:
    world = grouped(replicas=2)
    world.edit(*KEY, "spec.replicas", 1)
    assert written(world.settle()) == [("Apply", *KEY)]
    assert spec_of(world)["replicas"] == 2


def test_the_template_is_restored_from_the_workload_where_its_revision_was_deleted() -> None:
    world = grouped()
    before = templates(world)
    world.revisions = []
    world.config = replace(GROUPS, default_runtime_image="registry.example/penstock-runtime:2")
    world.settle()
    assert templates(world) == before
    assert len(world.revisions) == 1


def test_the_problem_of_a_group_is_the_pools() -> None:
    world = grouped()
    world.pods = (
        failing("chat-penstock-0", "Unschedulable", f"worker chat-penstock-0-1: no {GPU}"),
    )
    plan = world.run()
    assert reason(plan, "Ready") == "False/Unschedulable"
    assert "worker chat-penstock-0-1" in message(plan, "Ready")


def test_an_installation_without_leader_worker_sets_says_what_to_install() -> None:
    world = grouped()
    world.children.clear()
    world.revisions.clear()
    world.config = CONFIG
    plan = world.run()
    assert reason(plan, "Ready") == "False/TemplateNotAllowed"
    assert "leaderWorkerSets.enabled" in message(plan, "Ready")
    assert "LeaderWorkerSet" not in {write.kind for write in plan.writes}
