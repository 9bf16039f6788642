"""One pass over one pool: its writes, and what it must not write."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_api import names
from penstock_operator.decide.actions import Write
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.observed import Acknowledgement, Rejection
from tests.unit.operator.decide.world import (
    NOW,
    World,
    child,
    message,
    pod,
    pool,
    reason,
    settled,
    written,
)

CHILDREN = {
    ("Service", "chat"),
    ("Deployment", "chat-penstock"),
    ("ConfigMap", "chat-penstock"),
    ("PodDisruptionBudget", "chat-penstock"),
    ("ServiceAccount", "chat-penstock"),
}


def test_a_new_pool_gets_all_its_children_by_plain_creates() -> None:
    plan = World().run()
    assert {write.write for write in plan.writes} == {Write.CREATE}
    assert {(kind, name) for _, kind, name in written(plan) if kind != "ControllerRevision"} == (
        CHILDREN
    )


def test_what_pods_need_is_written_before_the_deployment() -> None:
    kinds = [kind for _, kind, _ in written(World().run())]
    before = kinds[: kinds.index("Deployment")]
    assert {"ServiceAccount", "ConfigMap", "ControllerRevision"} <= set(before)


def test_every_child_is_owned_by_the_pool_and_blocks_no_deletion() -> None:
    for write in World().run().writes:
        (owner,) = write.manifest["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ("uid-chat", True)
        assert owner["blockOwnerDeletion"] is False


def test_an_unchanged_pool_plans_no_write_no_push_and_no_event() -> None:
    plan = settled().run()
    assert (plan.writes, plan.pushes, plan.events) == ((), (), ())


def test_an_unchanged_pool_plans_the_status_it_already_has() -> None:
    world = settled()
    assert world.run().status == world.pool.status


def test_an_unchanged_pool_plans_nothing_after_a_restart_of_the_operator_either() -> None:
    world = settled()
    world.states.clear()
    plan = world.run()
    assert (plan.writes, plan.pushes) == ((), ())


def test_all_conditions_are_set_on_the_first_visit_each_with_a_reason() -> None:
    conditions = World().run().status.conditions or ()
    assert [condition.type for condition in conditions] == [
        "Ready",
        "Progressing",
        "Reconciling",
        "UpToDate",
        "Scaling",
        "MetricsAvailable",
        "LimitsApplied",
        "PolicyApplied",
        "BudgetLimited",
    ]
    assert all(condition.reason for condition in conditions)
    assert all(condition.observed_generation == 1 for condition in conditions)


@pytest.mark.parametrize(("kind", "name"), sorted(CHILDREN))
def test_a_child_deleted_by_hand_is_created_again(kind: str, name: str) -> None:
    world = settled()
    del world.children[kind, name]
    assert ("Create", kind, name) in written(world.run())


@pytest.mark.parametrize(
    ("kind", "name", "path", "value"),
    [
        ("Deployment", "chat-penstock", "spec.replicas", 7),
        ("Deployment", "chat-penstock", "spec.template.spec.serviceAccountName", "root"),
        ("Deployment", "chat-penstock", "metadata.labels", {}),
        ("Service", "chat", "spec.selector", {"app": "other"}),
        ("Service", "chat", "spec.type", "LoadBalancer"),
        ("ConfigMap", "chat-penstock", "data", {}),
        ("PodDisruptionBudget", "chat-penstock", "spec.maxUnavailable", 2),
        ("ServiceAccount", "chat-penstock", "automountServiceAccountToken", True),
    ],
)
def test_a_child_edited_by_hand_is_applied_again_and_only_that_one(
    kind: str, name: str, path: str, value: Any
) -> None:
    world = settled()
    world.edit(kind, name, path, value)
    assert written(world.run()) == [("Apply", kind, name)]


def test_values_that_other_writers_add_stay() -> None:
    world = settled()
    labels = dict(world.deployment["metadata"]["labels"]) | {"cost-centre": "7"}
    world.edit("Deployment", "chat-penstock", "metadata.labels", labels)
    assert world.run().writes == ()


def test_an_apply_has_the_observed_object_as_precondition() -> None:
    world = settled()
    world.edit("Deployment", "chat-penstock", "spec.replicas", 7)
    (write,) = world.run().writes
    own = write.manifest["metadata"]
    assert own["uid"] == "uid-Deployment-chat-penstock"
    assert own["resourceVersion"] == str(world.version)
    assert write.manifest["spec"]["replicas"] == 1


def test_a_field_that_is_no_longer_desired_is_removed() -> None:
    world = settled(pool=pool(template={"nodeSelector": {"zone": "a"}}))
    world.edit_spec(template={})
    assert ("Apply", "Deployment", "chat-penstock") in written(world.run())


def test_a_terminating_child_is_not_written() -> None:
    world = settled()
    live = world.children["Service", "chat"]
    world.children["Service", "chat"] = replace(live, deleting=True)
    assert world.run().writes == ()


def test_a_terminating_pool_gets_no_plan() -> None:
    world = settled()
    world.pool = replace(world.pool, deleting=True)
    world.children.clear()
    assert world.whole_plan().pools == ()


@pytest.mark.parametrize("owner", [None, "uid-of-another-pool"])
@pytest.mark.parametrize(("kind", "name"), sorted(CHILDREN))
def test_a_foreign_object_is_never_written_and_no_child_is_created(
    kind: str, name: str, owner: str | None
) -> None:
    world = World(children={(kind, name): child(kind, name, owner=owner)})
    plan = world.run()
    assert (plan.writes, plan.pushes) == ((), ())
    assert reason(plan, "Ready") == "False/NameConflict"
    assert f"{kind} {name}" in message(plan, "Ready")
    assert not plan.active


def test_both_conflicting_names_are_reported() -> None:
    taken = {key: child(*key) for key in (("Service", "chat"), ("Deployment", "chat-penstock"))}
    text = message(World(children=taken).run(), "Ready")
    assert "Service chat, Deployment chat-penstock" in text
    assert "another name" in text


def test_a_later_conflict_does_not_stop_running_children() -> None:
    world = settled()
    world.children["Service", "chat"] = child("Service", "chat")
    world.edit("Deployment", "chat-penstock", "spec.replicas", 5)
    plan = world.run()
    assert written(plan) == [("Apply", "Deployment", "chat-penstock")]
    assert reason(plan, "Ready") == "False/NameConflict"


def test_a_name_conflict_ends_when_the_other_object_is_deleted() -> None:
    world = World(children={("Service", "chat"): child("Service", "chat")})
    world.settle()
    world.children.clear()
    plan = world.run()
    assert ("Create", "Service", "chat") in written(plan)
    assert reason(plan, "Ready") == "False/ReplicasUnavailable"


def test_a_rejection_by_the_api_server_is_reported_with_its_message() -> None:
    world = World()
    rejected = Rejection("Deployment", "chat-penstock", "Forbidden", "exceeded quota: pods=1")
    observed = world.observed()
    view = replace(observed.pools[0], rejections=(rejected,))
    plan = make_plan(replace(observed, pools=(view,)), {}, world.config, NOW).pools[0]
    assert reason(plan, "Ready") == "False/ChildRejected"
    assert "Deployment chat-penstock: Forbidden: exceeded quota" in message(plan, "Ready")


def test_a_child_that_a_webhook_alters_is_no_failure_of_the_pool() -> None:
    world = settled()
    observed, text = world.observed(), "a mutating webhook replaced spec.template"
    altered = Rejection("Deployment", "chat-penstock", Rejection.ALTERED, text)
    view = replace(observed.pools[0], rejections=(altered,))
    plan = make_plan(replace(observed, pools=(view,)), world.states, world.config, NOW).pools[0]
    assert reason(plan, "Ready") == "True/AllReplicasReady"
    assert reason(plan, "UpToDate") == "False/ChildAltered"
    assert f"Deployment chat-penstock: {text}" in message(plan, "UpToDate")


def test_a_failure_to_plan_one_pool_does_not_affect_the_others() -> None:
    good, bad = World(), World(pool=pool("other", "uid-other"))
    broken = child("Deployment", "other-penstock", {"metadata": {}, "spec": None}, "uid-other")
    bad.children["Deployment", "other-penstock"] = broken
    observed = replace(good.observed(), pools=(bad.view(), good.view()))
    plan = make_plan(observed, {}, good.config, NOW)
    assert [pool_plan.name for pool_plan in plan.pools] == ["chat"]
    assert [(failure.name, failure.uid) for failure in plan.failures] == [("other", "uid-other")]


def test_a_pool_in_use_is_visited_at_the_fast_tick_and_a_quiet_one_is_not() -> None:
    world = settled()
    assert world.run().active
    world.now += 600
    assert not world.run().active
    world.edit_spec(replicas=2)
    assert world.settle().active


def test_a_pool_that_waits_for_a_replica_stays_at_the_fast_tick() -> None:
    world = settled()
    world.pods = (replace(world.pods[0], ready=False),)
    world.now += 600
    assert world.run().active


def test_pods_that_cannot_be_verified_safely_are_never_called() -> None:
    world = settled()
    world.acknowledgements.clear()
    world.pods = (
        pod("a", ip="10.0.0.1"),
        pod("loading", ip="10.0.0.2", ready=False),
        pod("no-ip", ip=None),
        pod("host", ip="10.0.0.3", host_network=True),
        pod("leaving", ip="10.0.0.4", terminating=True),
    )
    assert [push.pod_uid for push in world.run().pushes] == ["uid-a", "uid-loading"]


def test_a_pod_that_acknowledged_the_limits_gets_no_push() -> None:
    world = settled()
    generation = world.limits().generation
    world.pods = (pod("a"), pod("b"))
    world.acknowledgements = {"uid-a": Acknowledgement(generation, 64)}
    assert [push.pod_uid for push in world.run().pushes] == ["uid-b"]


def test_children_select_on_the_pool_uid_alone() -> None:
    manifests = {write.kind: write.manifest for write in World().run().writes}
    alone = {names.LABEL_POOL_UID: "uid-chat"}
    assert manifests["Deployment"]["spec"]["selector"] == {"matchLabels": alone}
    assert manifests["PodDisruptionBudget"]["spec"]["selector"] == {"matchLabels": alone}
    assert manifests["Service"]["spec"]["selector"] == alone
