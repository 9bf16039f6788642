"""A pool with variants owns a pool for each, repairs them, and deletes those of removed variants."""

from dataclasses import replace

import pytest

from penstock_api import names
from penstock_api.types.scaling import ScalingMode
from penstock_operator.decide.actions import Write
from penstock_operator.decide.manifests.metadata import labels
from penstock_operator.decide.variant_pools.writes import is_own
from penstock_operator.observed import Rejection
from tests.unit.operator.decide.variant_pools.parent_world import (
    FAST,
    SLOW,
    condition_of,
    parent,
)
from tests.unit.operator.decide.world import child, pool

MANUAL = {"scaling": {"mode": "Manual"}}


def test_each_variant_has_a_pool_with_the_merged_spec() -> None:
    world = parent(
        {
            **FAST,
            "template": {
                "nodeSelector": {"gpu": "h100"},
                "container": {
                    "env": [{"name": "A", "value": "2"}],
                    "resources": {"limits": {"cpu": 2}},
                },
            },
        },
        {**SLOW, "runtime": {"image": "cpu:1"}, "maxReplicas": 3},
        replicas=2,
        template={
            "nodeSelector": {"zone": "a"},
            "container": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]},
        },
        runtime={"log": {"level": "Debug"}},
        objectives=[{"metric": "RequestLatency", "milliseconds": 500}],
        **MANUAL,
    )
    world.settle()

    fast, slow = world.pools["chat-fast"].spec, world.pools["chat-slow"].spec
    assert fast.template is not None
    assert fast.template.node_selector == {"zone": "a", "gpu": "h100"}
    assert fast.template.container is not None
    env = {each.name: each.value for each in fast.template.container.env or ()}
    assert env == {"A": "2", "B": "1"}
    assert slow.runtime is not None
    assert slow.runtime.image == "cpu:1"
    assert slow.runtime.log is not None
    assert slow.accelerator is not None
    assert slow.accelerator.count == 0
    assert {fast.model.name, slow.model.name} == {"chat"}
    assert fast.objectives == slow.objectives == world.pool.spec.objectives
    assert fast.scaling is not None
    assert fast.scaling.mode is ScalingMode.RECOMMEND
    assert slow.scaling is not None
    assert slow.scaling.max_replicas == 3
    assert fast.variants is slow.variants is None


def test_nothing_is_written_once_the_pools_are_as_desired() -> None:
    world = parent(replicas=3, **MANUAL)
    world.settle()
    assert world.run().writes == ()


def test_the_service_selects_the_pods_of_all_variants() -> None:
    world = parent(**MANUAL)
    world.settle()
    selected = world.children["Service", "chat"].manifest["spec"]["selector"]
    for each in world.pools.values():
        assert selected.items() <= labels(each).items()
        assert labels(each)[names.LABEL_VARIANT] in ("fast", "slow")
    assert world.pool.status.selector == f"{names.LABEL_VARIANT_OF_UID}={world.pool.uid}"


def test_an_edit_by_hand_is_undone_as_a_whole() -> None:
    world = parent(replicas=1, **MANUAL)
    world.settle()
    live = world.pools["chat-fast"]
    world.pools["chat-fast"] = replace(
        live,
        spec=live.spec.model_copy(update={"weight": 7, "replicas": 5}),
        labels={**live.labels, "mine": "1"},
        annotations={"note": "stays"},
    )
    (write,) = world.run().writes
    assert write.write is Write.REPLACE
    assert "weight" not in write.manifest["spec"]
    assert write.manifest["spec"]["replicas"] == 1
    assert "mine" not in write.manifest["metadata"]["labels"]
    assert write.manifest["metadata"]["annotations"] == {"note": "stays"}
    assert write.manifest["metadata"]["resourceVersion"] == live.resource_version


def test_an_edit_of_the_parent_reaches_every_variant() -> None:
    world = parent(replicas=1, **MANUAL)
    world.settle()
    spec = world.pool.spec.model_copy(update={"weight": 7})
    world.pool = replace(world.pool, spec=spec, annotations={names.ANNOTATION_RESTARTED_AT: "1"})
    world.settle()
    for each in world.pools.values():
        assert each.spec.weight == 7
        assert each.annotations == {names.ANNOTATION_RESTARTED_AT: "1"}


def test_the_pool_of_a_removed_variant_is_deleted() -> None:
    world = parent(replicas=2, **MANUAL)
    world.settle()
    spec = world.pool.spec
    assert spec.variants is not None
    world.pool = replace(world.pool, spec=spec.model_copy(update={"variants": spec.variants[1:]}))
    plan = world.settle()
    assert [write.write for write in plan.writes if write.kind == "InferencePool"] == [
        Write.REPLACE,
        Write.DELETE,
    ]
    assert world.counts() == {"chat-slow": 2}


@pytest.mark.parametrize("taken", ["pool", "service"])
def test_a_name_of_another_owner_is_a_conflict_and_nothing_is_created(taken: str) -> None:
    world = parent(**MANUAL)
    if taken == "pool":
        world.pools["chat-fast"] = pool("chat-fast", "uid-foreign")
    else:
        world.children["Service", "chat"] = child("Service", "chat", owner="uid-foreign")
    plan = world.run()
    assert plan.writes == ()
    ready = condition_of(plan, "Ready")
    assert (ready.status, ready.reason) == ("False", "NameConflict")
    assert ("InferencePool chat-fast" if taken == "pool" else "Service chat") in ready.message
    assert condition_of(plan, "Stalled").reason == "NameConflict"


def test_a_rejected_pool_of_a_variant_is_reported_with_its_reason() -> None:
    world = parent(**MANUAL)
    world.rejections = (Rejection("InferencePool", "chat-fast", "Invalid", "spec.accelerator: 3"),)
    ready = condition_of(world.run(), "Ready")
    assert ready.reason == "ChildRejected"
    assert "spec.accelerator: 3" in ready.message


def test_a_merged_spec_that_the_api_server_rejects_leaves_the_other_variants() -> None:
    def env(prefix: str, count: int) -> dict[str, object]:
        return {"env": [{"name": f"{prefix}{number}"} for number in range(count)]}

    over = {**FAST, "template": {"container": env("B", 16)}}
    world = parent(over, SLOW, template={"container": env("A", 60)}, **MANUAL)
    sent = {write.manifest["metadata"]["name"]: write for write in world.run().writes}
    assert len(sent["chat-fast"].manifest["spec"]["template"]["container"]["env"]) == 76
    world.store(sent["chat-slow"])
    world.rejections = (Rejection("InferencePool", "chat-fast", "Invalid", "Too many: 76"),)
    plan = world.run()
    assert "Too many: 76" in condition_of(plan, "Ready").message
    assert [write.manifest["metadata"]["name"] for write in plan.writes][:1] == ["chat-fast"]


def test_a_child_that_a_webhook_alters_blocks_no_variant() -> None:
    world = parent(**MANUAL)
    world.settle()
    altered = "a mutating webhook replaced spec.type"
    world.rejections = (Rejection("Service", "chat", Rejection.ALTERED, altered),)
    plan = world.run()
    assert condition_of(plan, "Progressing").reason != "Blocked"
    stated = condition_of(plan, "UpToDate")
    assert (stated.status, stated.reason) == ("False", "ChildAltered")
    assert f"Service chat: {altered}" in stated.message


def test_labels_reach_the_variants_except_those_by_which_tools_prune() -> None:
    world = parent(**MANUAL)
    world.pool = replace(world.pool, labels={"team": "a", "argocd.argoproj.io/instance": "app"})
    world.settle()
    assert world.pools["chat-fast"].labels == {
        "team": "a",
        names.LABEL_VARIANT: "fast",
        names.LABEL_VARIANT_OF: "chat",
    }


def test_a_pool_of_another_namespace_is_never_one_of_a_variant() -> None:
    world = parent(replicas=3, **MANUAL)
    world.settle()
    forged = replace(world.pools["chat-fast"], namespace="elsewhere", uid="uid-forged")
    assert not is_own(world.pool, forged)
    assert is_own(world.pool, world.pools["chat-fast"])
