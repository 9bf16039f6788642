"""Status of pools and policies, and the Events of pools."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from penstock_api.types.policy import PolicyStatus
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.observed import (
    PodProblem,
    PodSample,
    PolicyObject,
    PoolLabels,
    PoolObject,
    PoolSignals,
    SignalSource,
)
from tests.unit.operator.decide.world import NOW, World, child, known, pod, policy, pool, settled


def used(world: World) -> dict[str, int]:
    return {
        accelerator.resource_name: accelerator.used
        for accelerator in known(world.run().status.accelerators)
    }


def test_the_scale_subresource_reads_count_and_selector() -> None:
    status = settled(pool=pool(replicas=2)).run().status
    assert (status.replicas, status.ready_replicas, status.desired_replicas) == (2, 2, 2)
    assert status.selector == "penstock.dev/pool-uid=uid-chat"
    assert status.observed_generation == 1


def text_pool(task: str, **more: Any) -> PoolObject:
    claim = {
        "type": "PersistentVolumeClaim",
        "persistentVolumeClaim": {"claimName": "c", "path": "m"},
    }
    return pool(model={"task": task, "source": claim, "name": "llama"}, **more)


@pytest.mark.parametrize(
    ("subject", "url"),
    [
        (pool(), "http://chat.team-a.svc:8000"),
        (text_pool("Classification"), "http://chat.team-a.svc:8000"),
        (text_pool("Embedding"), "http://chat.team-a.svc:8000/v1"),
        (
            text_pool("TextGeneration", tls={"secretRef": {"name": "certificate"}}),
            "https://chat.team-a.svc:8000/v1",
        ),
    ],
    ids=["tensors", "classification", "embedding", "text"],
)
def test_the_url_has_the_scheme_and_the_path_that_clients_need(
    subject: PoolObject, url: str
) -> None:
    assert World(pool=subject).run().status.url == url


def test_the_model_is_named_as_clients_name_it() -> None:
    assert World().run().status.model == "chat"
    assert World(pool=text_pool("Embedding")).run().status.model == "llama"


def test_ready_replicas_are_shown_of_the_requested_ones() -> None:
    world = settled(pool=pool(replicas=2))
    world.edit_spec(replicas=4)
    assert world.run().status.ready_replicas_of == "2/4"


def ended(world: World, good: float, total: float) -> World:
    """Count requests of the pool's pod, of which `good` took less than half a second."""
    buckets = ((0.5, good), (inf, total))
    sample = PodSample(
        world.pods[0].uid, world.now, requests_settled=total, request_duration_buckets=buckets
    )
    world.signals = PoolSignals(SignalSource.PODS, (sample,))
    world.settle()
    return world


def test_the_share_on_time_is_of_the_last_ten_minutes() -> None:
    objectives = [{"metric": "RequestLatency", "milliseconds": 500}]
    world = ended(settled(pool=pool(objectives=objectives)), 0, 0)
    late = [ended(world, 50 * i, 100 * i).run().status for i in range(1, 25)][-1]
    assert known(late.scaling).on_time_percent == "50.0"
    for i in range(1, 140):
        ended(world, 1200 + 100 * i, 2400 + 100 * i)
    assert known(world.run().status.scaling).on_time_percent == "100.0"


def test_without_an_objective_or_requests_no_share_is_on_time() -> None:
    objectives = [{"metric": "RequestLatency", "milliseconds": 500}]
    quiet = ended(ended(settled(pool=pool(objectives=objectives)), 5, 5), 5, 5)
    free = ended(ended(settled(), 0, 0), 5, 10)
    for world in (quiet, free):
        assert known(world.run().status.scaling).on_time_percent is None


def test_devices_of_terminating_and_surge_pods_count_until_they_are_released() -> None:
    world = settled(
        pool=pool(replicas=2, accelerator={"resourceName": "nvidia.com/gpu", "count": 2})
    )
    world.pods = (
        *world.pods,
        pod("surge", ready=False),
        pod("leaving", terminating=True),
        pod("unscheduled", ready=False, scheduled=False),
    )
    assert used(world) == {"nvidia.com/gpu": 8}
    assert world.run().status.replicas == 4


def test_a_pod_of_an_older_template_uses_the_devices_of_that_template() -> None:
    world = settled(pool=pool(accelerator={"resourceName": "nvidia.com/gpu", "count": 4}))
    (old,) = world.pods
    world.edit_spec(accelerator={"resourceName": "nvidia.com/gpu", "count": 1})
    world.settle()
    world.pods = (old, pod("new", revision=world.revision))
    assert used(world) == {"nvidia.com/gpu": 5}


def test_a_pool_on_cpus_reports_zero_devices() -> None:
    world = settled(pool=pool(accelerator={"resourceName": "nvidia.com/gpu", "count": 0}))
    assert used(world) == {"nvidia.com/gpu": 0}


def test_the_status_names_the_prometheus_that_signals_come_from() -> None:
    world = settled()
    world.signals = PoolSignals(SignalSource.PROMETHEUS, url="http://prometheus.monitoring:9090")
    assert known(world.run().status.scaling).prometheus_url == "http://prometheus.monitoring:9090"
    world.signals = PoolSignals(SignalSource.PODS)
    assert known(world.run().status.scaling).prometheus_url is None


def test_the_status_names_the_prometheus_that_is_queried_even_while_it_does_not_answer() -> None:
    world, url = settled(), "http://prometheus.monitoring:9090"
    world.signals = PoolSignals(SignalSource.PODS, problem="no answer", server=url)
    assert world.run().status.prometheus_url == url
    world.signals = PoolSignals(SignalSource.PODS)
    assert world.run().status.prometheus_url is None


def test_the_status_shows_the_published_cap_and_its_generation() -> None:
    world = settled(pool=pool(batching={"mode": "Fixed", "size": {"max": 12}}))
    batch = known(world.run().status.batch)
    assert (batch.cap, batch.generation) == (12, 1)


def test_a_changed_bound_is_one_event() -> None:
    world = settled(pool=pool(replicas=5))
    world.policies = (policy("prod", bounds={"replicas": {"max": 2}}),)
    events = [(event.reason, event.message) for event in world.settle().events]
    assert ("Bounded", "spec.replicas 5 is limited to 2 by policy prod") in events
    assert "Bounded" not in [event.reason for event in world.settle().events]
    world.policies = ()
    assert ("BoundLifted", "spec.replicas is no longer limited by policy prod") in [
        (event.reason, event.message) for event in world.settle().events
    ]


def test_a_name_conflict_is_one_warning_event() -> None:
    world = World(children={("Service", "chat"): child("Service", "chat")})
    (event,) = [event for event in world.settle().events if event.reason == "NameConflict"]
    assert event.type == "Warning"
    assert world.settle().events == ()


def test_a_pod_problem_is_a_warning_and_a_scale_up_is_not() -> None:
    world = settled(pool=pool(replicas=2))
    world.edit_spec(replicas=3)
    assert "Warning" not in [event.type for event in world.settle().events]
    broken = replace(pod("c", ready=False), problem=PodProblem("ModelLoadFailed", "no factory"))
    world.pods = (*world.pods, broken)
    (event,) = world.settle().events
    assert (event.type, event.reason) == ("Warning", "ModelLoadFailed")


def notes(world: World) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in world.settle().events]


def test_a_pool_that_becomes_ready_first_or_again_is_one_event() -> None:
    world = World(pool=pool(replicas=1))
    world.settle()
    loading = pod("a", ready=False, revision=world.revision)
    world.pods = (loading,)
    assert notes(world) == []
    world.pods = (pod("a", revision=world.revision),)
    assert notes(world) == [("BecameReady", "1/1 replicas ready")]
    assert notes(world) == []
    world.pods = (replace(loading, problem=PodProblem("EngineDied", "out of memory")),)
    assert [reason for reason, _ in notes(world)] == ["EngineDied"]
    world.pods = (pod("a", revision=world.revision),)
    assert notes(world) == [("BecameReady", "1/1 replicas ready")]


def test_the_end_of_a_rollout_is_one_event() -> None:
    world = settled(pool=pool(replicas=2))
    old, template = world.pods, {"labels": {"team": "a"}}
    world.edit_spec(template=template)
    assert [reason for reason, _ in notes(world)] == ["TemplateAdopted"]
    new = tuple(pod(name, revision=world.revision) for name in "ab")
    world.pods = (new[0], old[1])
    assert notes(world) == []
    world.pods = (*new, replace(old[1], terminating=True))
    assert notes(world) == [("RolloutComplete", f"every pod runs template {world.revision}")]
    assert notes(world) == []


def test_foreign_writes_of_the_replicas_are_reverted_until_they_repeat() -> None:
    world = settled(pool=pool(replicas=2))
    for _ in range(4):
        world.edit("Deployment", "chat-penstock", "spec.replicas", 6)
        world.settle()
        assert world.deployment["spec"]["replicas"] == 2
    world.edit("Deployment", "chat-penstock", "spec.replicas", 6)
    plan = world.settle()
    assert plan.writes == ()
    conditions = {condition.type: condition for condition in known(plan.status.conditions)}
    assert conditions["Scaling"].reason == "ReplicasContested"
    assert "now 6" in conditions["Scaling"].message
    assert [event.reason for event in plan.events if event.type == "Warning"] == [
        "ReplicasContested"
    ]
    assert world.run().writes == ()
    world.now += 600
    world.settle()
    assert world.deployment["spec"]["replicas"] == 2


def test_one_foreign_write_counts_once_over_many_passes() -> None:
    world = settled(pool=pool(replicas=2))
    world.edit("Deployment", "chat-penstock", "spec.replicas", 6)
    for _ in range(20):
        plan = world.run()
        assert plan.writes


def test_status_updates_of_a_deployment_are_not_writes_of_its_replicas() -> None:
    world = settled(pool=pool(replicas=2))
    world.edit("Deployment", "chat-penstock", "spec.replicas", 6)
    key = ("Deployment", "chat-penstock")
    for version in range(20):
        live = world.children[key]
        metadata = {**live.manifest["metadata"], "generation": 7}
        manifest = {**live.manifest, "metadata": metadata}
        world.children[key] = replace(live, manifest=manifest, resource_version=f"{1000 + version}")
        assert world.run().writes, "a single foreign write is still reverted"


def test_an_own_change_of_the_count_is_never_taken_for_a_foreign_one() -> None:
    world = settled(pool=pool(replicas=1))
    for count in (5, 2, 7, 1, 9, 3, 8):
        world.edit_spec(replicas=count)
        world.settle()
        assert world.deployment["spec"]["replicas"] == count
        assert "ReplicasContested" not in str(world.run().status.conditions)


def policies_of(*policies: PolicyObject, pools: list[PoolLabels]) -> dict[str, PolicyStatus]:
    world = World(policies=policies)
    observed = replace(world.observed(), all_pools=tuple(pools))
    plan = make_plan(observed, {}, world.config, NOW)
    return {policy.name: policy.status for policy in plan.policies}


def labels(number: int, **namespace_labels: str) -> PoolLabels:
    return PoolLabels(f"uid-{number}", "team-a", namespace_labels, {})


def conditions(status: PolicyStatus) -> dict[str, str]:
    return {
        condition.type: f"{condition.status}/{condition.reason}"
        for condition in known(status.conditions)
    }


def test_a_policy_counts_every_pool_it_selects_due_or_not() -> None:
    prod = policy("prod", namespaceSelector={"matchLabels": {"tier": "prod"}})
    pools = [labels(1, tier="prod"), labels(2, tier="prod"), labels(3, tier="test")]
    status = policies_of(prod, pools=pools)["prod"]
    assert (status.matched_pools, status.observed_generation) == (2, 1)
    assert conditions(status) == {
        "Accepted": "True/Valid",
        "Conflicted": "False/NoConflict",
        "BudgetExhausted": "False/NoBudget",
    }


def test_both_policies_of_a_tie_report_it_and_a_third_does_not() -> None:
    pair = [
        policy(name, defaults={"batching": {"maxQueueDepth": depth}})
        for name, depth in (("a", 10), ("b", 20))
    ]
    third = policy("c", priority=-1, defaults={"batching": {"maxQueueDepth": 30}})
    statuses = policies_of(*pair, third, pools=[labels(1)])
    assert {name: conditions(status)["Conflicted"] for name, status in statuses.items()} == {
        "a": "True/EqualPriority",
        "b": "True/EqualPriority",
        "c": "False/NoConflict",
    }


def test_policies_without_a_common_pool_do_not_conflict() -> None:
    statuses = policies_of(
        policy("a", namespaceSelector={"matchLabels": {"t": "1"}}, defaults={"batching": {"maxQueueDepth": 1}}),
        policy("b", namespaceSelector={"matchLabels": {"t": "2"}}, defaults={"batching": {"maxQueueDepth": 2}}),
        pools=[labels(1, t="1"), labels(2, t="2")],
    )  # fmt: skip
    assert {conditions(status)["Conflicted"] for status in statuses.values()} == {
        "False/NoConflict"
    }


def test_unreadable_policies_get_no_status() -> None:
    assert World(policies_readable=False).whole_plan().policies == ()


@pytest.mark.parametrize("mode", ["Auto", "Recommend", "Hold", "Manual"])
def test_every_mode_leaves_a_pool_with_a_plan_and_its_conditions(mode: str) -> None:
    plan = settled(pool=pool(scaling={"mode": mode})).run()
    assert len(known(plan.status.conditions)) == 8
    assert plan.writes == ()
