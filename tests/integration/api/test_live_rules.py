"""Transition rules of a pool's spec, and the scale subresource, on the real API server."""

from collections.abc import Callable, Iterator

import pytest

from tests.integration.api.cases import CLAIM, Object, pool
from tests.support.kube.api import Api, ApiError

pytestmark = pytest.mark.integration

Make = Callable[..., str]
OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 500}]


@pytest.fixture
def make(api: Api, namespace: str) -> Iterator[Make]:
    """A function that creates a pool with a spec and ready replicas and returns its path."""
    root = f"/apis/penstock.dev/v1alpha1/namespaces/{namespace}/inferencepools"
    paths: list[str] = []

    def create(spec: Object, ready: int = 0, unset_mode: str | None = None) -> str:
        name = f"pool-{len(paths)}"
        path = f"{root}/{name}"
        api.delete(path)
        api.request("POST", root, pool(spec, name))
        paths.append(path)
        status: Object = {
            "replicas": ready,
            "readyReplicas": ready,
            "selector": "penstock.dev/pool-uid=x",
        }
        if unset_mode is not None:
            status["unsetScalingMode"] = unset_mode
        api.merge(f"{path}/status", {"status": status})
        return path

    yield create
    for path in paths:
        api.delete(path)


def mode(name: str) -> Object:
    return {"scaling": {"mode": name}}


def rejected(api: Api, path: str, spec: Object) -> str:
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
    message = rejected(api, path, mode(entered))
    for word in ("spec.scaling.mode", entered, "8 ready replicas", "spec.replicas 1", "mode Hold"):
        assert word in message


def test_dropping_the_mode_is_leaving_auto_too(api: Api, make: Make) -> None:
    path = make(mode("Auto"), ready=8)
    assert "Manual would shrink the pool from 8" in rejected(api, path, {"scaling": None})


@pytest.mark.parametrize(
    "spec",
    [{"objectives": OBJECTIVES}, {"scaling": {"maxReplicas": 8}}],
    ids=["objective", "maximum"],
)
def test_removing_what_makes_an_unset_mode_auto_is_leaving_auto_too(
    api: Api, make: Make, spec: Object
) -> None:
    path = make(spec, ready=8, unset_mode="ByTarget")
    without = dict.fromkeys(spec)
    assert "Manual would shrink the pool from 8" in rejected(api, path, without)
    assert "Manual would shrink" in rejected(api, path, mode("Manual"))
    api.merge(path, {"spec": mode("Hold")})
    api.merge(path, {"spec": {"replicas": 8, "scaling": {"mode": None}}})
    api.merge(path, {"spec": without})


def test_an_objective_of_a_pool_of_an_earlier_release_comes_and_goes(api: Api, make: Make) -> None:
    for meaning in ("Manual", None):
        path = make({"objectives": OBJECTIVES}, ready=8, unset_mode=meaning)
        api.merge(path, {"spec": {"objectives": None}})
        api.merge(path, {"spec": {"objectives": OBJECTIVES}})
        api.merge(path, {"spec": mode("Manual")})


def test_leaving_auto_with_a_replica_count_in_the_same_edit_is_allowed(
    api: Api, make: Make
) -> None:
    path = make(mode("Auto"), ready=8)
    api.merge(path, {"spec": {"replicas": 3, **mode("Manual")}})


def test_leaving_auto_with_a_count_of_the_ready_replicas_is_allowed(api: Api, make: Make) -> None:
    path = make({"replicas": 8, **mode("Auto")}, ready=8)
    api.merge(path, {"spec": mode("Manual")})


def test_hold_can_always_be_entered_and_left(api: Api, make: Make) -> None:
    path = make(mode("Auto"), ready=8)
    api.merge(path, {"spec": mode("Hold")})
    api.merge(path, {"spec": mode("Auto")})


def test_a_manual_pool_may_recommend_whatever_is_ready(api: Api, make: Make) -> None:
    path = make(mode("Manual"), ready=8)
    api.merge(path, {"spec": mode("Recommend")})
    api.merge(path, {"spec": {"replicas": 0}})


def test_the_source_type_is_immutable(api: Api, make: Make) -> None:
    path = make({})
    message = rejected(api, path, {"model": {"source": {**CLAIM, "module": None}}})
    for word in ("model.source", "was Module, got PersistentVolumeClaim", "create another pool"):
        assert word in message


def test_the_task_is_immutable(api: Api, make: Make) -> None:
    path = make({"model": {"source": {**CLAIM, "module": None}}})
    message = rejected(api, path, {"model": {"task": "Embedding", "source": _directory()}})
    for word in ("model.task", "was Tensor, got Embedding", "create another pool"):
        assert word in message
    api.merge(path, {"spec": {"model": {"task": "Tensor"}}})


def _directory() -> dict[str, object]:
    return {"persistentVolumeClaim": {"path": "minilm"}}


HUGGING_FACE = {"type": "HuggingFace", "huggingFace": {"repository": "owner/chat"}, "module": None}
GENERATING = {"source": HUGGING_FACE, "task": "TextGeneration"}


def test_the_pods_of_a_replica_are_immutable(api: Api, make: Make) -> None:
    ranks = {"tensor": 4, "nodes": 2}
    path = make({"model": GENERATING, "accelerator": {"count": 0}, "parallelism": ranks})
    message = rejected(api, path, {"parallelism": {"nodes": None}})
    for word in ("parallelism.nodes", "cannot change from 2 to 1", "create another pool"):
        assert word in message
    api.merge(path, {"spec": {"parallelism": {"tensor": 2}}})


def test_the_nodes_of_a_variant_are_fixed_too(api: Api, make: Make) -> None:
    nodes = {"name": "a", "accelerator": {"count": 0}, "parallelism": {"tensor": 4, "nodes": 2}}
    path = make({"model": GENERATING, "variants": [nodes, {"name": "b"}]})
    changed = nodes | {"parallelism": {"tensor": 4, "nodes": 4}}
    message = rejected(api, path, {"variants": [changed, {"name": "b"}]})
    for word in ('variants ["a"]', "cannot change to [4]", "add another variant"):
        assert word in message
    api.merge(path, {"spec": {"variants": [{"name": "b"}, nodes | {"maxReplicas": 3}]}})


def test_a_variant_may_state_or_omit_the_nodes_that_it_inherits(api: Api, make: Make) -> None:
    for pool_nodes, nodes in (({"nodes": 2}, 2), ({}, 1)):
        ranks = {"tensor": 2, **pool_nodes}
        spec = {"model": GENERATING, "accelerator": {"count": 0}, "parallelism": ranks}
        path = make({**spec, "variants": [{"name": "a"}]})
        api.merge(path, {"spec": {"variants": [{"name": "a", "parallelism": {"nodes": nodes}}]}})
        message = rejected(api, path, {"variants": [{"name": "a", "parallelism": {"nodes": 4}}]})
        assert "parallelism.nodes cannot change to [4]" in message
        api.merge(path, {"spec": {"variants": [{"name": "a"}]}})


def test_the_class_of_a_load_balancer_is_immutable_until_the_type_changes(
    api: Api, make: Make
) -> None:
    path = make({"service": {"type": "LoadBalancer"}})
    message = rejected(api, path, {"service": {"loadBalancerClass": "example.com/a"}})
    for word in ("service.loadBalancerClass", "was unset, got example.com/a", "another type first"):
        assert word in message
    api.merge(path, {"spec": {"service": {"type": "NodePort"}}})
    another = {"type": "LoadBalancer", "loadBalancerClass": "example.com/a"}
    api.merge(path, {"spec": {"service": another}})


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


def test_scale_rejects_what_the_schema_rejects(api: Api, make: Make) -> None:
    path = make({})
    with pytest.raises(ApiError, match=r"spec\.replicas"):
        api.merge(f"{path}/scale", {"spec": {"replicas": 1001}})


def test_replicas_defaults_to_one(api: Api, make: Make) -> None:
    assert api.request("GET", make({}))["spec"]["replicas"] == 1


def test_no_other_field_has_a_default(api: Api, make: Make) -> None:
    spec = api.request("GET", make({}))["spec"]
    assert spec == pool({"replicas": 1})["spec"]


def test_a_status_write_leaves_the_spec_alone(api: Api, make: Make) -> None:
    path = make({})
    api.merge(f"{path}/status", {"spec": {"replicas": 9}, "status": {"replicas": 1}})
    stored = api.request("GET", path)
    assert stored["spec"]["replicas"] == 1
    assert stored["status"]["replicas"] == 1


def test_a_spec_write_leaves_the_status_alone(api: Api, make: Make) -> None:
    path = make({}, ready=2)
    api.merge(path, {"spec": {"replicas": 4}, "status": {"readyReplicas": 4}})
    assert api.request("GET", path)["status"]["readyReplicas"] == 2
