"""The Service of a pool follows live edits of `spec.service` on the real API server."""

from typing import Any

import pytest

from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until

pytestmark = pytest.mark.integration

CLASS = "example.com/none"
"""No controller of the test cluster implements it."""


def changed(api: Api, pool: PoolHandle, service: Object, expected: Object) -> Object:
    """Edit the pool, wait until the Service has the expected fields, and return it."""
    pool.edit({"service": None})
    pool.edit({"service": service})

    def probe() -> bool | str:
        live = api.get(pool.children["Service"]) or {}
        spec = live.get("spec", {})
        return {key: spec.get(key) for key in expected} == expected or str(spec)

    until(f"the Service is {service}", probe, seconds=20)
    return api.request("GET", pool.children["Service"])


def test_a_service_changes_its_type_while_the_pool_lives(api: Api, pool: PoolHandle) -> None:
    pool.apply(BARE)
    await_children(api, pool)
    deployment = generation(api, pool)
    external: dict[str, Any] = {"externalTrafficPolicy": "Local"}
    balanced = {"type": "LoadBalancer", "loadBalancerClass": CLASS, **external}
    live = changed(api, pool, {**balanced, "annotations": {"example.com/a": "1"}}, balanced)
    assert live["metadata"]["annotations"]["example.com/a"] == "1"
    assert live["spec"]["ports"][0]["nodePort"], "allocated by the API server"
    node = changed(api, pool, {"type": "NodePort"}, {"type": "NodePort", "loadBalancerClass": None})
    assert "example.com/a" not in node["metadata"]["annotations"]
    headless = changed(api, pool, {"type": "Headless"}, {"clusterIP": "None"})
    assert headless["metadata"]["uid"] != node["metadata"]["uid"]
    plain = changed(api, pool, {}, {"type": "ClusterIP", "sessionAffinity": "None"})

    def has_an_address() -> bool:
        live = api.get(pool.children["Service"]) or {}
        return bool(live.get("spec", {}).get("clusterIP", "None") != "None")

    until("the Service has an address", has_an_address, seconds=20)
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert generation(api, pool) == deployment, "no pod was rolled"
    assert "rejected" not in str(pool.status())


def generation(api: Api, pool: PoolHandle) -> int:
    """Return the generation of the Deployment's spec."""
    return int(api.request("GET", pool.children["Deployment"])["metadata"]["generation"])


def test_a_node_port_that_is_taken_is_reported_and_heals(api: Api, pool: PoolHandle) -> None:
    pool.apply({**BARE, "service": {"type": "NodePort", "nodePort": 80}})
    until("it is reported", lambda: "nodePort" in str(pool.status()), seconds=20)
    pool.edit({"service": {"nodePort": None}})
    await_children(api, pool)
