"""CRDs of another version than the operator's: pools are served and report the difference; stored pools keep working."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, ApiError, Object
from tests.support.kube.install import CRDS
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(240)]

EARLIER = Path(__file__).parents[1] / "api" / "earlier" / "first"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
Change = Callable[[Object], None]
OPENAPI = "/openapi/v3/apis/penstock.dev/v1alpha1"


def test_an_older_crd_is_served_with_a_condition_and_its_pools_go_through_the_upgrade(
    api: Api, namespace: str, operator: OperatorProcess
) -> None:
    pool, mark = PoolHandle(api, namespace, "chat"), len(operator.log())
    with operator.down(), older(api):
        pool.apply(BARE)
        operator.start()
        await_children(api, pool)
        pool.await_condition("UpToDate", "False", "OlderSchema", seconds=20)
        assert "lacks spec." in pool.condition("UpToDate")["message"]
        pool.await_zero(seconds=20)
        pool.edit({"batching": {"maxQueueDepth": 77}})
        pool.await_condition("LimitsApplied", "Unknown", seconds=10)
        assert "not declared in schema" not in operator.log()[mark:]
        before = {kind: uid_of(api, path) for kind, path in pool.children.items()}

        put(api, CRDS / "penstock.dev_inferencepools.yaml")
        pool.await_condition("UpToDate", "True", seconds=100)
        assert {kind: uid_of(api, path) for kind, path in pool.children.items()} == before
        pool.edit({"weight": 200})
        pool.await_zero(seconds=10)
        operator.stop()


def test_a_pool_stored_with_several_devices_a_replica_is_served_and_editable(
    api: Api, namespace: str, operator: OperatorProcess
) -> None:
    pool, several = (
        PoolHandle(api, namespace, "several"),
        {"resourceName": "nvidia.com/gpu", "count": 2},
    )
    with operator.down():
        with older(api):
            pool.apply({**BARE, "accelerator": several})
        operator.start()
        pool.await_zero(seconds=30)
        pool.await_condition("DevicesUsed", "False", "OneDeviceUsed", seconds=20)
        pool.edit({"batching": {"maxQueueDepth": 77}})
        pool.await_condition("LimitsApplied", "Unknown", seconds=10)
        with pytest.raises(ApiError, match=r"accelerator\.count 3 cannot be used: .* set count 1"):
            pool.edit({"accelerator": {"count": 3}})
        pool.edit({"accelerator": {"count": 1}})
        until("one is used of one", lambda: not pool.condition("DevicesUsed"), seconds=20)
        operator.stop()


def test_a_newer_crd_is_served_and_a_pool_that_uses_it_reports_it(
    api: Api, namespace: str, operator: OperatorProcess
) -> None:
    plain, newer = PoolHandle(api, namespace, "plain"), PoolHandle(api, namespace, "newer")
    with operator.down(), changed(api, "inferencepools", with_more):
        plain.apply(BARE)
        newer.apply({**BARE, "colour": "blue", "batching": {"discipline": "Lottery"}})
        operator.start()
        plain.await_zero(seconds=30)
        plain.await_condition("UpToDate", "False", "NewerSchema", seconds=20)
        newer.await_condition("Ready", "False", "SpecNotUnderstood", seconds=20)
        assert "upgrade the operator" in newer.condition("Ready")["message"]
        operator.stop()


@contextmanager
def older(api: Api) -> Iterator[None]:
    """Serve the earliest schemas inside the context."""
    try:
        for file in ("pool.yaml", "policy.yaml"):
            put(api, EARLIER / file)
        until("the older schema is published", lambda: not published(api, "weight"), seconds=60)
        yield
    finally:
        for path in sorted(CRDS.glob("*.yaml")):
            put(api, path)
        until("the newer schema is published", lambda: published(api, "weight"), seconds=60)


def with_more(definition: Object) -> None:
    """Add a field, which an operator may ignore, and an enum value, which it must not ignore."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = schema["properties"]["spec"]["properties"]
    fields["colour"] = {"type": "string"}
    fields["batching"]["properties"]["discipline"]["enum"].append("Lottery")


@contextmanager
def changed(api: Api, plural: str, change: Change) -> Iterator[None]:
    """Serve a changed schema inside the context."""
    file = CRDS / f"penstock.dev_{plural}.yaml"
    try:
        put(api, file, change)
        until("the newer schema is published", lambda: published(api, "colour"), seconds=60)
        yield
    finally:
        put(api, file)
        until("the schema is published", lambda: not published(api, "colour"), seconds=60)


def put(api: Api, file: Path, change: Change | None = None) -> None:
    """Replace a definition's spec."""
    wanted = yaml.safe_load(file.read_text())
    if change is not None:
        change(wanted)
    path = DEFINITIONS + wanted["metadata"]["name"]
    stored = api.request("GET", path)
    api.request("PUT", path, {**stored, "spec": wanted["spec"]})


def published(api: Api, name: str) -> bool:
    """Return whether the API server's OpenAPI has the field in a pool's spec."""
    schemas = api.request("GET", OPENAPI)["components"]["schemas"]
    (pool,) = [schema for key, schema in schemas.items() if key.endswith(".InferencePool")]
    return name in pool["properties"]["spec"]["properties"]


def uid_of(api: Api, path: str) -> str:
    return str(api.request("GET", path)["metadata"]["uid"])
