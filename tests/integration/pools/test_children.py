"""The operator creates a pool's children, repairs them, and never changes objects of other owners."""

import json

import pytest

from tests.support.kube.api import Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = pytest.mark.integration

BARE = emulated(replicas=0)


def test_a_pool_makes_its_children_and_owns_them(api: Api, pool: PoolHandle) -> None:
    pool.apply(BARE)

    await_children(api, pool)

    uid = pool.get()["metadata"]["uid"]
    for path in pool.children.values():
        child = api.request("GET", path)
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)
        assert child["metadata"]["labels"]["penstock.dev/pool-uid"] == uid


def test_a_deleted_child_is_created_again(api: Api, pool: PoolHandle) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    before = {kind: uid_at(api, path) for kind, path in pool.children.items()}

    for path in pool.children.values():
        api.delete(path)

    def recreated() -> bool | str:
        now = {kind: uid_at(api, path) for kind, path in pool.children.items()}
        return all(now[kind] not in (None, before[kind]) for kind in now) or str(now)

    assert until("all children are back", recreated, seconds=15) < 10


def test_a_child_edited_by_hand_is_repaired(api: Api, pool: PoolHandle) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    service, deployment = pool.children["Service"], pool.children["Deployment"]

    api.merge(service, {"spec": {"selector": {"penstock.dev/pool-uid": "unknown"}}})
    api.merge(deployment, {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}})
    api.merge(deployment, {"metadata": {"labels": {"penstock.dev/pool-uid": None}}})

    uid = pool.get()["metadata"]["uid"]

    def repaired() -> bool:
        stored = api.request("GET", deployment)
        return bool(
            api.request("GET", service)["spec"]["selector"] == {"penstock.dev/pool-uid": uid}
            and stored["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 1
            and stored["metadata"]["labels"].get("penstock.dev/pool-uid") == uid
        )

    until("the edits are undone", repaired, seconds=15)


def test_a_variable_removed_from_the_template_is_removed_from_the_deployment(
    api: Api, pool: PoolHandle
) -> None:
    variable = {"name": "GREETING", "value": "hello"}
    pool.apply({**BARE, "template": {"container": {"env": [variable]}}})
    await_children(api, pool)
    assert "GREETING" in json.dumps(api.request("GET", pool.children["Deployment"])["spec"])

    pool.apply(BARE)

    def gone() -> bool:
        return "GREETING" not in json.dumps(api.request("GET", pool.children["Deployment"])["spec"])

    until("the variable is gone", gone, seconds=15)


def test_a_template_that_is_restored_becomes_the_latest_revision(
    api: Api, pool: PoolHandle
) -> None:
    """A revision's data is immutable, so only its number changes."""
    greeting = {**BARE, "template": {"container": {"env": [{"name": "GREETING", "value": "<&>"}]}}}
    pool.apply(greeting)
    await_children(api, pool)
    first = revision_in_force(api, pool)
    pool.apply(BARE)
    until("another template", lambda: revision_in_force(api, pool) != first, seconds=15)

    pool.apply(greeting)

    until("the first template again", lambda: revision_in_force(api, pool) == first, seconds=15)
    path = f"/apis/apps/v1/namespaces/{pool.namespace}/controllerrevisions"

    def latest() -> bool | str:
        listed = api.request("GET", path)["items"]
        numbers = {revision["metadata"]["name"]: revision["revision"] for revision in listed}
        return (max(numbers, key=lambda name: numbers[name]) == first) or str(numbers)

    until("its revision has the highest number", latest, seconds=10)
    assert "rejected" not in pool.condition("Ready")["message"]


def test_names_in_use_are_a_conflict_and_their_objects_stay_unchanged(
    api: Api, pool: PoolHandle
) -> None:
    strangers = [stranger_service(pool), stranger_deployment(pool)]
    before = [api.create(stranger) for stranger in strangers]
    paths = [pool.children["Service"], pool.children["Deployment"]]

    pool.apply(BARE)

    pool.await_condition("Ready", "False", "NameConflict", seconds=15)
    assert [spec_of(api.request("GET", path)) for path in paths] == [
        spec_of(stranger) for stranger in before
    ]

    for path in paths:
        api.delete(path)
    await_children(api, pool)
    assert pool.has_condition("Ready", "False", "NameConflict") is not True


def test_a_pool_deleted_while_the_operator_is_down_leaves_nothing(
    api: Api, pool: PoolHandle, operator: OperatorProcess
) -> None:
    pool.apply(BARE)
    await_children(api, pool)

    with operator.down():
        pool.delete()

        def nothing_left() -> bool | str:
            left = [kind for kind, path in pool.children.items() if uid_at(api, path)]
            return not left or str(left)

        until("the garbage collector has taken the children", nothing_left, seconds=30)
    assert api.get(pool.path) is None
    assert operator.running


def test_a_pool_whose_children_are_rejected_affects_no_other(api: Api, namespace: str) -> None:
    quota: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-deployments", "namespace": namespace},
        "spec": {"hard": {"count/deployments.apps": "1"}},
    }
    good, bad = PoolHandle(api, namespace, "good"), PoolHandle(api, namespace, "bad")
    good.apply(BARE)
    await_children(api, good)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api.request("POST", path, quota)
    counted = f"{path}/no-deployments"
    until("the quota counts", lambda: api.request("GET", counted).get("status", {}).get("used"))

    bad.apply(BARE)

    def reported() -> bool | str:
        ready = bad.condition("Ready")
        return (ready.get("status") == "False" and "quota" in ready["message"]) or str(ready)

    assert until("the rejection is reported", reported, seconds=15) < 10
    good.edit({"batching": {"size": {"max": 7}}})
    good.await_zero(seconds=10)

    api.delete(counted)
    await_children(api, bad, seconds=40)


def await_children(api: Api, pool: PoolHandle, *, seconds: float = 15) -> None:
    def there() -> bool | str:
        missing = [kind for kind, path in pool.children.items() if not uid_at(api, path)]
        return not missing or f"missing: {missing}; {pool.condition('Ready')}"

    until(f"{pool.name} has its children", there, seconds=seconds)


def uid_at(api: Api, path: str) -> str | None:
    child = api.get(path)
    return (
        child["metadata"]["uid"] if child and "deletionTimestamp" not in child["metadata"] else None
    )


def spec_of(child: Object) -> str:
    """Return an object without what controllers write, such as the resourceVersion, which changes with the status."""
    metadata = {k: v for k, v in child["metadata"].items() if k in ("uid", "labels", "generation")}
    return json.dumps([metadata, child["spec"]], sort_keys=True)


def stranger_service(pool: PoolHandle) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": pool.name, "namespace": pool.namespace},
        "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 80}]},
    }


def stranger_deployment(pool: PoolHandle) -> Object:
    labels = {"app": "stranger"}
    container = {"name": "stranger", "image": "localhost/penstock-busybox:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{pool.name}-penstock", "namespace": pool.namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def revision_in_force(api: Api, pool: PoolHandle) -> str:
    """Return the name of the revision in the labels of the Deployment's pod template."""
    template = api.request("GET", pool.children["Deployment"])["spec"]["template"]
    name: str = template["metadata"]["labels"]["penstock.dev/revision"]
    return name
