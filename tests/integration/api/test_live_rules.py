"""Rules that look at two versions of a pool, and the scale subresource, on the real API server."""

from collections.abc import Callable, Iterator

import pytest

from tests.integration.api.cases import CLAIM, Object, pool
from tests.support.kube.api import Api, ApiError

pytestmark = pytest.mark.integration

Make = Callable[..., str]


@pytest.fixture
def make(api: Api, namespace: str) -> Iterator[Make]:
    """Makes a pool with a spec and ready replicas; returns its path."""
    root = f"/apis/penstock.dev/v1alpha1/namespaces/{namespace}/inferencepools"
    made: list[str] = []

    def one(spec: Object, ready: int = 0) -> str:
        name = f"pool-{len(made)}"
        path = f"{root}/{name}"
        api.delete(path)
        api.request("POST", root, pool(spec, name))
        made.append(path)
        status = {"replicas": ready, "readyReplicas": ready, "selector": "penstock.dev/pool-uid=x"}
        api.merge(f"{path}/status", {"status": status})
        return path

    yield one
    for path in made:
        api.delete(path)


def mode(name: str) -> Object:
    return {"scaling": {"mode": name}}


def refused(api: Api, path: str, spec: Object) -> str:
    with pytest.raises(ApiError) as caught:
        api.merge(path, {"spec": spec})
    assert caught.value.status == 422
    return caught.value.message


@pytest.mark.parametrize("left", ["Auto", "Hold"])
@pytest.mark.parametrize("entered", ["Manual", "Recommend"])
def test_leaving_auto_does_not_collapse_the_pool(
    api: Api, make: Make, left: str, entered: str
) -> None:
    path = make(mode(left), ready=8)
    said = refused(api, path, mode(entered))
    for word in ("spec.scaling.mode", entered, "8 ready replicas", "spec.replicas 1", "mode Hold"):
        assert word in said


def test_dropping_the_mode_is_leaving_auto_too(api: Api, make: Make) -> None:
    path = make(mode("Auto"), ready=8)
    assert "Manual would shrink the pool from 8" in refused(api, path, {"scaling": None})


def test_leaving_auto_with_a_count_in_the_same_edit_is_the_users_word(api: Api, make: Make) -> None:
    path = make(mode("Auto"), ready=8)
    api.merge(path, {"spec": {"replicas": 3, **mode("Manual")}})


def test_leaving_auto_with_a_count_that_holds_what_is_ready_is_fine(api: Api, make: Make) -> None:
    path = make({"replicas": 8, **mode("Auto")}, ready=8)
    api.merge(path, {"spec": mode("Manual")})


def test_hold_is_always_open(api: Api, make: Make) -> None:
    path = make(mode("Auto"), ready=8)
    api.merge(path, {"spec": mode("Hold")})
    api.merge(path, {"spec": mode("Auto")})


def test_a_manual_pool_may_recommend_whatever_is_ready(api: Api, make: Make) -> None:
    path = make(mode("Manual"), ready=8)
    api.merge(path, {"spec": mode("Recommend")})
    api.merge(path, {"spec": {"replicas": 0}})


def test_the_source_type_is_immutable(api: Api, make: Make) -> None:
    path = make({})
    said = refused(api, path, {"model": {"source": {**CLAIM, "module": None}}})
    for word in ("model.source", "was Module, got PersistentVolumeClaim", "create another pool"):
        assert word in said


def test_the_task_is_immutable(api: Api, make: Make) -> None:
    path = make({"model": {"source": {**CLAIM, "module": None}}})
    said = refused(api, path, {"model": {"task": "Embedding", "source": _directory()}})
    for word in ("model.task", "was Tensor, got Embedding", "create another pool"):
        assert word in said
    api.merge(path, {"spec": {"model": {"task": "Tensor"}}})


def _directory() -> dict[str, object]:
    return {"persistentVolumeClaim": {"path": "minilm"}}


def test_the_rest_of_the_source_may_change(api: Api, make: Make) -> None:
    path = make({})
    api.merge(path, {"spec": {"model": {"source": {"module": {"arguments": {"features": "16"}}}}}})


def test_scale_reads_and_writes_the_count(api: Api, make: Make) -> None:
    path = make({"replicas": 3}, ready=2)
    scale = api.request("GET", f"{path}/scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "penstock.dev/pool-uid=x"}
    api.merge(f"{path}/scale", {"spec": {"replicas": 5}})
    assert api.request("GET", path)["spec"]["replicas"] == 5


def test_scale_refuses_what_the_schema_refuses(api: Api, make: Make) -> None:
    path = make({})
    with pytest.raises(ApiError, match=r"spec\.replicas"):
        api.merge(f"{path}/scale", {"spec": {"replicas": 1001}})


def test_replicas_is_one_where_it_is_left_out(api: Api, make: Make) -> None:
    assert api.request("GET", make({}))["spec"]["replicas"] == 1


def test_nothing_else_is_filled_in(api: Api, make: Make) -> None:
    held = api.request("GET", make({}))["spec"]
    assert held == pool({"replicas": 1})["spec"]


def test_a_status_write_leaves_the_spec_alone(api: Api, make: Make) -> None:
    path = make({})
    api.merge(f"{path}/status", {"spec": {"replicas": 9}, "status": {"replicas": 1}})
    held = api.request("GET", path)
    assert held["spec"]["replicas"] == 1
    assert held["status"]["replicas"] == 1


def test_a_spec_write_leaves_the_status_alone(api: Api, make: Make) -> None:
    path = make({}, ready=2)
    api.merge(path, {"spec": {"replicas": 4}, "status": {"readyReplicas": 4}})
    assert api.request("GET", path)["status"]["readyReplicas"] == 2
