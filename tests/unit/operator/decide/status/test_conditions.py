"""Conditions of a pool: each has a reason, and a message with the remedy."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_api import names
from penstock_api.pod_contract import Loading, LoadStage
from penstock_operator.decide.actions import EventType
from penstock_operator.observed import Acknowledgement, PodProblem, UnreadablePolicy
from penstock_operator.schema_skew import SchemaSkew
from tests.unit.operator.decide.world import (
    World,
    failing,
    known,
    message,
    pod,
    policy,
    pool,
    reason,
    settled,
)


def test_a_pool_whose_replicas_all_serve_is_ready_and_settled() -> None:
    plan = settled(pool=pool(replicas=3)).run()
    assert reason(plan, "Ready") == "True/AllReplicasReady"
    assert message(plan, "Ready") == "3/3 replicas ready"
    assert reason(plan, "Progressing") == "False/Settled"
    assert reason(plan, "UpToDate") == "True/LatestTemplate"


def test_a_pool_with_several_devices_per_replica_reports_that_one_is_used() -> None:
    plan = settled(pool=pool(accelerator={"resourceName": "nvidia.com/gpu", "count": 4})).run()
    assert reason(plan, "Ready") == "True/AllReplicasReady"
    assert reason(plan, "DevicesUsed") == "False/OneDeviceUsed"
    for word in ("4 nvidia.com/gpu", "computes on one", "set spec.accelerator.count to 1"):
        assert word in message(plan, "DevicesUsed")


def test_a_pool_with_a_rank_per_device_has_no_condition_on_them() -> None:
    several = {"resourceName": "nvidia.com/gpu", "count": 4}
    plan = settled(pool=pool(accelerator=several, parallelism={"tensor": 2, "pipeline": 2})).run()
    assert "DevicesUsed" not in [condition.type for condition in known(plan.status.conditions)]


@pytest.mark.parametrize("count", [0, 1])
def test_a_pool_that_uses_its_devices_has_no_condition_on_them(count: int) -> None:
    plan = settled(pool=pool(accelerator={"resourceName": "nvidia.com/gpu", "count": count})).run()
    assert "DevicesUsed" not in [condition.type for condition in known(plan.status.conditions)]


def test_a_pool_at_zero_replicas_is_not_ready_and_names_the_remedy() -> None:
    plan = settled(pool=pool(replicas=0)).run()
    assert reason(plan, "Ready") == "False/ScaledToZero"
    assert "set spec.replicas to 1 or more" in message(plan, "Ready")
    assert reason(plan, "Progressing") == "False/Settled"
    assert plan.events == ()


def test_a_pool_that_is_scaled_to_zero_leaves_no_warning() -> None:
    world = settled()
    world.edit_spec(replicas=0)
    plan = world.settle()
    assert reason(plan, "Ready") == "False/ScaledToZero"
    assert [event.type for event in plan.events if event.type is EventType.WARNING] == []


def test_a_pool_whose_template_starts_no_pod_is_not_reported_as_scaled_to_zero() -> None:
    world = settled(pool=pool(replicas=0))
    world.policies = (
        policy("trusted", bounds={"template": {"allowedImages": ["elsewhere.example/*"]}}),
    )
    world.edit_spec(replicas=1)
    plan = world.run()
    assert reason(plan, "Ready") == "False/TemplateNotAllowed"


def test_a_starting_pool_reports_its_ready_replicas() -> None:
    world = settled(pool=pool(replicas=3))
    world.pods = (replace(world.pods[0], ready=False),)
    plan = world.run()
    assert reason(plan, "Ready") == "False/ReplicasUnavailable"
    assert "0/3 replicas ready" in message(plan, "Ready")
    assert reason(plan, "Progressing") == "True/Scaling"


def test_a_pool_that_cannot_scale_up_stays_ready() -> None:
    world = settled(pool=pool(replicas=3))
    broken = PodProblem("Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    world.pods = (world.pods[0], replace(world.pods[1], ready=False, problem=broken))
    plan = world.run()
    assert reason(plan, "Ready") == "True/SomeReplicasReady"
    assert "Insufficient nvidia.com/gpu" in message(plan, "Ready")
    assert reason(plan, "Progressing") == "False/Unschedulable"


def test_a_pool_that_scales_up_reports_its_ready_replicas() -> None:
    world = settled(pool=pool(replicas=3))
    world.pods = (world.pods[0], replace(world.pods[1], ready=False))
    plan = world.run()
    assert reason(plan, "Ready") == "True/SomeReplicasReady"
    assert "1/3 replicas ready" in message(plan, "Ready")
    assert reason(plan, "Progressing") == "True/Scaling"


@pytest.mark.parametrize(
    ("problem", "text", "expected", "remedy"),
    [
        ("ErrImagePull", "not found", "ImagePullFailed", "spec.runtime.image"),
        ("ImagePullBackOff", "back-off", "ImagePullFailed", "spec.runtime.image"),
        ("InvalidImageName", "bad", "ImagePullFailed", "spec.runtime.image"),
        ("ModelLoadFailed", "no such factory", "ModelLoadFailed", "spec.model"),
        ("Unschedulable", "0/1 nodes: 1 Insufficient nvidia.com/gpu", "Unschedulable", "node"),
        ("Unschedulable", 'persistentvolumeclaim "x" not found', "VolumeNotFound", "volume"),
        ("FailedMount", "claim lost", "VolumeNotFound", "volume"),
        ("OOMKilled", "", "OOMKilled", "memory"),
        ("CreateContainerConfigError", "secret x not found", "ContainerConfigError", "env"),
        ("CrashLoopBackOff", "back-off 10 s", "CrashLoopBackOff", "--previous"),
        ("SomethingNew", "cause unknown", "SomethingNew", "kubectl describe"),
        ("not camel", "cause unknown", "PodFailed", "kubectl describe"),
    ],
)
def test_a_pods_problem_is_the_pools_reason_with_a_remedy(
    problem: str, text: str, expected: Any, remedy: str
) -> None:
    world = settled()
    world.pods = (failing("chat-1", problem, text),)
    plan = world.run()
    for which in ("Ready", "Progressing"):
        assert reason(plan, which) == f"False/{expected}"
        assert f"pod chat-1: {text or problem}" in message(plan, which)
        assert remedy in message(plan, which)


def test_of_several_problems_one_of_the_spec_is_reported_first() -> None:
    world = settled(pool=pool(replicas=3))
    world.pods = (
        failing("a", "Unschedulable", "no GPU"),
        failing("b", "ModelLoadFailed", "bad factory"),
        failing("c", "ImagePullBackOff", "no image"),
    )
    assert reason(world.run(), "Ready") == "False/ModelLoadFailed"


def test_a_problem_of_a_pod_that_is_ready_again_is_not_reported() -> None:
    world = settled()
    world.pods = (replace(failing("chat-1", "CrashLoopBackOff"), ready=True),)
    assert reason(world.run(), "Ready") == "True/AllReplicasReady"


def test_a_rollout_to_a_broken_template_leaves_the_pool_ready_and_reports_the_failure() -> None:
    world = settled()
    world.edit_spec(runtime={"image": "registry.example/missing:1"})
    world.settle()
    world.pods = (
        *world.pods,
        failing("new", "ImagePullBackOff", "not found", revision=world.revision),
    )
    plan = world.run()
    assert reason(plan, "Ready") == "True/AllReplicasReady"
    assert reason(plan, "Progressing") == "False/ImagePullFailed"


def test_a_rollout_under_way_is_reported() -> None:
    world = settled()
    world.edit_spec(template={"labels": {"v": "2"}})
    plan = world.settle()
    assert reason(plan, "Progressing") == "True/RollingOut"


def with_deployment_condition(world: World, **condition: str) -> None:
    key = ("Deployment", "chat-penstock")
    live = world.children[key]
    world.children[key] = replace(live, status={"conditions": [condition]})


def test_pods_that_cannot_be_created_are_reported_from_the_deployment() -> None:
    world = settled()
    world.pods = ()
    with_deployment_condition(
        world, type="ReplicaFailure", status="True", reason="FailedCreate", message="quota: pods"
    )
    plan = world.run()
    assert reason(plan, "Ready") == "False/FailedCreate"
    assert "quota: pods" in message(plan, "Ready")
    with_deployment_condition(
        world, type="ReplicaFailure", status="True", reason="FailedDelete", message=""
    )
    assert reason(world.run(), "Ready") == "False/ReplicasUnavailable"


def test_a_rollout_without_progress_is_stuck() -> None:
    world = settled()
    world.pods = (replace(world.pods[0], ready=False),)
    with_deployment_condition(
        world, type="Progressing", status="False", reason="ProgressDeadlineExceeded", message=""
    )
    assert reason(world.run(), "Progressing") == "False/ProgressDeadlineExceeded"


def test_limits_are_applied_when_every_ready_pod_acknowledged_them() -> None:
    plan = settled(pool=pool(replicas=2)).run()
    assert reason(plan, "LimitsApplied") == "True/AllPodsAcknowledged"
    assert message(plan, "LimitsApplied") == "2/2 ready pods acknowledged limits generation 1"
    assert known(plan.status.batch).acknowledged_pods == 2


def test_limits_wait_for_the_first_ready_pod() -> None:
    assert reason(World().run(), "LimitsApplied") == "Unknown/Waiting"


def test_a_pod_without_a_push_so_far_is_waited_for() -> None:
    world = settled(pool=pool(replicas=2))
    del world.acknowledgements["uid-chat-2"]
    plan = world.run()
    assert reason(plan, "LimitsApplied") == "False/Waiting"
    assert known(plan.status.batch).acknowledged_pods == 1


def test_a_pod_that_cannot_be_reached_is_named() -> None:
    world = settled(pool=pool(replicas=2))
    world.acknowledgements["uid-chat-2"] = Acknowledgement(None, None, "timed out after 2 s")
    plan = world.run()
    assert reason(plan, "LimitsApplied") == "False/PodsUnreachable"
    assert "pod chat-2: timed out after 2 s" in message(plan, "LimitsApplied")


def test_a_pod_on_the_nodes_network_is_named_and_never_called() -> None:
    world = settled()
    world.pods = (pod("host", host_network=True),)
    plan = world.run()
    assert reason(plan, "LimitsApplied") == "False/PodsUnreachable"
    assert "host network" in message(plan, "LimitsApplied")


def test_a_pod_that_became_ready_after_the_last_push_is_waited_for_and_not_called_unreachable() -> (
    None
):
    world = settled(pool=pool(replicas=2))
    loading = Loading(stage=LoadStage.STARTING)
    answer = Acknowledgement(None, None, "responded 503: the model is being loaded", loading)
    world.acknowledgements["uid-chat-2"] = answer
    assert reason(world.run(), "LimitsApplied") == "False/Waiting"


def test_messages_count_one_pod_as_one() -> None:
    world = settled()
    world.edit_spec(replicas=3)
    assert message(world.settle(), "Progressing") == "1 pod, 3 desired"
    world.edit_spec(replicas=1, template={"labels": {"v": "2"}})
    assert message(world.settle(), "Progressing").startswith("1 pod still runs an older template")


def test_a_pool_that_waits_for_its_first_replica_names_its_pod() -> None:
    world = settled()
    world.pods = ()
    assert message(world.run(), "Ready") == "0/1 replicas ready; no pod exists yet"
    world.pods = (pod("chat-1", ready=False),)
    assert message(world.run(), "Ready") == "0/1 replicas ready; pod chat-1 is starting"


def test_a_loading_pod_does_not_delay_the_condition() -> None:
    world = settled()
    loading = pod("loading", ready=False)
    world.acknowledgements[loading.uid] = Acknowledgement(None, None, "refused")
    world.pods = (*world.pods, loading)
    assert reason(world.run(), "LimitsApplied") == "True/AllPodsAcknowledged"


def test_policies_in_force_are_named_with_what_they_lowered() -> None:
    world = settled(
        pool=pool(replicas=5),
        policies=(policy("prod", bounds={"replicas": {"max": 2}}),),
    )
    plan = world.run()
    assert reason(plan, "PolicyApplied") == "True/Applied"
    assert message(plan, "PolicyApplied") == (
        "policies in force: prod; spec.replicas 5 is limited to 2 by policy prod"
    )
    assert world.deployment["spec"]["replicas"] == 2


def test_a_pool_without_a_policy_reports_it() -> None:
    assert reason(settled().run(), "PolicyApplied") == "True/NoPolicy"


def test_unreadable_policies_are_reported_as_unknown() -> None:
    plan = settled(policies_readable=False).run()
    assert reason(plan, "PolicyApplied") == "Unknown/PoliciesNotReadable"


def test_a_policy_that_applies_in_part_is_named_on_the_pools_that_it_selects() -> None:
    part = UnreadablePolicy("prod", "spec.rollback.mode: Input should be 'Never': it applies")
    prod = policy("prod", bounds={"replicas": {"max": 2}})
    world = settled(pool=pool(replicas=5), policies=(prod,), unreadable_policies=(part,))
    plan = world.run()
    assert reason(plan, "PolicyApplied") == "Unknown/PoliciesNotReadable"
    assert message(plan, "PolicyApplied").startswith("policy prod: spec.rollback.mode: ")
    assert reason(plan, "BudgetLimited") == "False/NoBudget"
    assert world.deployment["spec"]["replicas"] == 2
    assert world.whole_plan().policies == ()
    other = settled(unreadable_policies=(part,)).run()
    assert reason(other, "PolicyApplied") == "True/NoPolicy"


def test_a_policy_with_unreadable_selectors_is_named_on_every_pool() -> None:
    none = UnreadablePolicy("prod", "spec.namespaceSelector: unknown", applies=False)
    plan = settled(unreadable_policies=(none,)).run()
    for kind in ("PolicyApplied", "BudgetLimited"):
        assert reason(plan, kind) == "Unknown/PoliciesNotReadable"
        assert "no permission" not in message(plan, kind)


def test_a_tie_is_reported_on_the_pools_that_it_affects() -> None:
    pair = tuple(
        policy(name, defaults={"batching": {"maxQueueDepth": depth}})
        for name, depth in (("a", 10), ("b", 20))
    )
    plan = settled(policies=pair).run()
    assert reason(plan, "PolicyApplied") == "False/Conflicted"
    assert "policies a, b of priority 0" in message(plan, "PolicyApplied")
    settles = settled(pool=pool(batching={"maxQueueDepth": 5}), policies=pair).run()
    assert reason(settles, "PolicyApplied") == "True/Applied"


def test_a_tie_keeps_the_value_in_force_across_a_restart_of_the_operator() -> None:
    first = policy("a", defaults={"batching": {"maxQueueDepth": 10}})
    world = settled(policies=(first,))
    world.policies = (first, policy("b", defaults={"batching": {"maxQueueDepth": 20}}))
    world.states.clear()
    world.settle()
    world.policies = (
        policy("a", defaults={"batching": {"maxQueueDepth": 30}}),
        world.policies[1],
    )
    world.states.clear()
    assert world.limits().max_queue_depth == 10


def test_stored_defaults_for_a_tie_are_validated_like_a_policy() -> None:
    pair = tuple(
        policy(name, defaults={"batching": {"maxQueueDepth": depth}})
        for name, depth in (("a", 10), ("b", 20))
    )
    world = settled(policies=pair)
    for spoiled in ("[]", "nonsense", '{"batching.maxQueueDepth": -5, "x": 1}'):
        annotations = {names.ANNOTATION_POLICY_DEFAULTS: spoiled}
        world.edit("ConfigMap", "chat-penstock", "metadata.annotations", annotations)
        assert world.limits().max_queue_depth == 2048


def test_a_transition_time_changes_only_with_its_status() -> None:
    world = settled()
    before = {
        condition.type: condition.last_transition_time
        for condition in known(world.pool.status.conditions)
    }
    world.now += 3600
    world.pods = (replace(world.pods[0], ready=False),)
    after = {
        condition.type: condition.last_transition_time
        for condition in known(world.run().status.conditions)
    }
    moved = {kind for kind in after if after[kind] != before.get(kind)}
    assert {"Ready", "Progressing"} <= moved
    assert not moved & {"UpToDate", "PolicyApplied"}


@pytest.mark.parametrize(
    ("skew", "expected"),
    [
        (SchemaSkew(lacking=frozenset({"status.candidate"})), "False/OlderSchema"),
        (SchemaSkew(unknown=frozenset({"spec.colour"})), "False/NewerSchema"),
    ],
)
def test_a_crd_of_another_version_is_reported_and_blocks_nothing(
    skew: SchemaSkew, expected: str
) -> None:
    world = settled(pool_schema=skew)
    plan = world.run()
    assert reason(plan, "UpToDate") == expected
    assert next(iter(skew.lacking | skew.unknown)) in message(plan, "UpToDate")
    assert reason(plan, "Ready") == "True/AllReplicasReady"
    assert plan.writes == ()


def test_a_law_that_does_not_apply_to_the_task_is_noted_without_a_policy() -> None:
    claim = {"claimName": "c", "path": "m"}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    generating = pool(
        model={"task": "TextGeneration", "source": source},
        scaling={"mode": "Auto", "algorithm": "UtilizationBand"},
    )
    plan = settled(pool=generating).run()
    assert message(plan, "PolicyApplied") == (
        "no policy selects this pool; scaling.algorithm UtilizationBand does not apply to task TextGeneration:"
        " CapacityAtObjective does"
    )
