"""A pool with variants on the real API server: its pools, its Service, their repair and their end."""

from typing import Any

import pytest

from tests.support.kube.api import Api, ApiError, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = pytest.mark.integration

FAST: Object = {"name": "fast", "template": {"nodeSelector": {"nowhere": "fast"}}, "maxReplicas": 2}
SLOW: Object = {"name": "slow", "template": {"nodeSelector": {"nowhere": "slow"}}}


def spec(*variants: Object, **more: Any) -> Object:
    """Return the spec of a pool in mode Manual whose pods no node takes."""
    given = {"replicas": 3, "scaling": {"mode": "Manual"}, **more}
    return emulated(variants=list(variants or (FAST, SLOW)), **given)


def variant(pool: PoolHandle, name: str) -> PoolHandle:
    return PoolHandle(pool.api, pool.namespace, f"{pool.name}-{name}")


def await_deployed(pool: PoolHandle, name: str, replicas: int) -> None:
    def probe() -> bool | str:
        live = pool.api.get(variant(pool, name).children["Deployment"])
        return live is not None and (live["spec"]["replicas"] == replicas or str(live["spec"]))

    until(f"the Deployment of {name} has {replicas} replicas", probe, seconds=20)


def test_each_variant_has_a_pool_of_its_own_and_the_pool_has_one_service(
    api: Api, pool: PoolHandle
) -> None:
    pool.apply(spec())

    await_deployed(pool, "fast", 2)
    await_deployed(pool, "slow", 1)

    uid = pool.get()["metadata"]["uid"]
    for name in ("fast", "slow"):
        child = variant(pool, name).get()
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)
        assert child["metadata"]["labels"]["penstock.dev/variant-of"] == pool.name
        template = api.request("GET", variant(pool, name).children["Deployment"])["spec"][
            "template"
        ]
        assert template["spec"]["nodeSelector"] == {"nowhere": name}
        assert template["metadata"]["labels"]["penstock.dev/variant-of-uid"] == uid
    service = api.request("GET", pool.children["Service"])
    assert service["spec"]["selector"] == {"penstock.dev/variant-of-uid": uid}
    assert api.get(pool.children["Deployment"]) is None

    def reported() -> bool | str:
        status = pool.status()
        return status.get("variantReplicas") == "fast 0/2, slow 0/1" or str(status)

    until("the status lists the variants", reported, seconds=20)
    assert pool.status()["readyReplicasOf"] == "0/3"
    assert pool.condition("Ready")["status"] == "False"
    assert pool.condition("SplitByCapacity")["reason"] == "ByConnections"


def test_scale_and_live_edits_reach_the_variants(api: Api, pool: PoolHandle) -> None:
    pool.apply(spec())
    await_deployed(pool, "slow", 1)

    api.merge(f"{pool.path}/scale", {"spec": {"replicas": 5}})
    await_deployed(pool, "slow", 3)

    pool.edit({"batching": {"size": {"max": 7}}})
    until(
        "the variants have the new size",
        lambda: all(
            variant(pool, name).get()["spec"].get("batching") == {"size": {"max": 7}}
            for name in ("fast", "slow")
        ),
        seconds=15,
    )


def test_a_pool_of_a_variant_that_is_edited_or_deleted_by_hand_is_repaired(
    api: Api, pool: PoolHandle
) -> None:
    pool.apply(spec())
    await_deployed(pool, "fast", 2)
    fast, slow = variant(pool, "fast"), variant(pool, "slow")
    before = fast.get()["spec"]
    gone = slow.get()["metadata"]["uid"]

    fast.edit({"replicas": 9, "weight": 7})
    slow.delete()

    until("the edit is undone", lambda: fast.get()["spec"] == before, seconds=15)
    until(
        "the deleted pool is back",
        lambda: (api.get(slow.path) or {"metadata": {"uid": gone}})["metadata"]["uid"] != gone,
        seconds=15,
    )


def test_the_pool_of_a_removed_variant_goes_and_all_go_with_the_pool(
    api: Api, pool: PoolHandle
) -> None:
    pool.apply(spec())
    await_deployed(pool, "fast", 2)

    pool.apply(spec(SLOW))
    until("the pool is deleted", lambda: api.get(variant(pool, "fast").path) is None, seconds=15)
    await_deployed(pool, "slow", 3)

    pool.delete()
    until("the other goes too", lambda: api.get(variant(pool, "slow").path) is None, seconds=30)


def test_a_pool_of_another_owner_is_a_conflict_and_stays_unchanged(
    api: Api, pool: PoolHandle
) -> None:
    other = variant(pool, "fast")
    other.apply(emulated(replicas=0))
    before = other.get()["spec"]

    pool.apply(spec())

    pool.await_condition("Ready", "False", "NameConflict", seconds=15)
    assert f"InferencePool {other.name}" in pool.condition("Ready")["message"]
    assert other.get()["spec"] == before
    assert api.get(variant(pool, "slow").path) is None

    other.delete()
    await_deployed(pool, "fast", 2)


def test_a_variant_whose_spec_is_rejected_is_reported(pool: PoolHandle) -> None:
    two = {"name": "two", "accelerator": {"count": 2}, "parallelism": {"tensor": 2}}
    pool.apply(spec(two, SLOW))

    pool.await_condition("Ready", "False", "ChildRejected", seconds=15)
    message = pool.condition("Ready")["message"]
    assert "InferencePool chat-two" in message
    assert "parallelism.tensor and parallelism.pipeline are for model.task" in message


def test_an_existing_pool_keeps_its_kind(pool: PoolHandle) -> None:
    pool.apply(emulated(replicas=0))
    with pytest.raises(ApiError) as caught:
        pool.edit({"variants": [SLOW]})
    assert "spec.variants cannot be added to an existing pool" in caught.value.message


def test_the_counts_stay_over_a_restart_of_the_operator(
    pool: PoolHandle, operator: OperatorProcess
) -> None:
    pool.apply(spec())
    await_deployed(pool, "fast", 2)
    before = {
        name: variant(pool, name).get()["metadata"]["generation"] for name in ("fast", "slow")
    }
    operator.stop()
    operator.start()
    pool.edit({"batching": {"maxQueueDepth": 99}})
    until(
        "the restarted operator acts",
        lambda: all("batching" in variant(pool, each).get()["spec"] for each in before),
        seconds=30,
    )
    after = {name: variant(pool, name).get()["metadata"]["generation"] for name in ("fast", "slow")}
    assert after == {name: generation + 1 for name, generation in before.items()}
