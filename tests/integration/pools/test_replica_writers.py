"""Other writers of replicas: a stock HPA on the pool's scale subresource, and one that contests its Deployment."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pools.test_children import BARE, await_children
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.tls_server import serving_tls

pytestmark = pytest.mark.integration

METRIC = "queue_depth"
GROUP = "external.metrics.k8s.io"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


class Metrics:
    """A substitute for prometheus-adapter with one external metric, whose value the test sets."""

    value = 0

    def answer(self, path: str, body: Any) -> Object:
        if path.endswith("/v1beta1"):
            resource = {"name": METRIC, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}  # fmt: skip
            head = {"kind": "APIResourceList", "apiVersion": "v1"}
            return {**head, "groupVersion": f"{GROUP}/v1beta1", "resources": [resource]}
        value = {"metricName": METRIC, "metricLabels": {}, "timestamp": "2026-01-01T00:00:00Z", "value": str(self.value)}  # fmt: skip
        head = {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/v1beta1"}
        return {**head, "metadata": {}, "items": [value]}


@contextmanager
def adapter(api: Api, namespace: str, folder: Path) -> Iterator[Metrics]:
    """Serve the metric over TLS on the node's address, behind a Service that the API server aggregates."""
    metrics = Metrics()
    with serving_tls(api, metrics, folder) as address:
        head: Object = {"metadata": {"name": "adapter", "namespace": namespace}}
        ports = [{"port": 443, "targetPort": address.port, "name": "https"}]
        api.create({"apiVersion": "v1", "kind": "Service", **head, "spec": {"ports": ports}})
        slice_of: Object = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "adapter",
                "namespace": namespace,
                "labels": {"kubernetes.io/service-name": "adapter"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address.host], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": address.port, "protocol": "TCP"}],
        }
        api.request(
            "POST", f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", slice_of
        )
        spec = {
            "group": GROUP,
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "adapter", "namespace": namespace, "port": 443},
        }
        name = f"v1beta1.{GROUP}"
        api_service = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}}  # fmt: skip
        api.request("POST", API_SERVICES, {**api_service, "spec": spec})
        try:
            yield metrics
        finally:
            api.request("DELETE", f"{API_SERVICES}/{name}")


def hpa(pool: PoolHandle) -> Object:
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": METRIC},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": pool.name, "namespace": pool.namespace},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "penstock.dev/v1alpha1",
                "kind": "InferencePool",
                "name": pool.name,
            },
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [metric],
        },
    }


def deployed(api: Api, pool: PoolHandle) -> int:
    count: int = api.request("GET", pool.children["Deployment"])["spec"]["replicas"]
    return count


def test_a_stock_hpa_scales_a_manual_pool_by_its_scale_subresource(
    api: Api, pool: PoolHandle, tmp_path: Path
) -> None:
    pool.apply({**BARE, "replicas": 1})
    await_children(api, pool)
    with adapter(api, pool.namespace, tmp_path) as metrics:
        metrics.value = 30
        path = f"/apis/autoscaling/v2/namespaces/{pool.namespace}/horizontalpodautoscalers"
        api.request("POST", path, hpa(pool))

        def scaled() -> bool | str:
            state = api.request("GET", f"{path}/{pool.name}").get("status", {})
            return deployed(api, pool) == 3 or str(state)

        until("the HPA scales the pool", scaled, seconds=100)
    assert pool.get()["spec"]["replicas"] == 3, "the HPA wrote the pool, and the operator followed"
    scaling = pool.condition("Scaling")
    assert scaling["reason"] != "ReplicasContested", scaling


def test_a_writer_that_contests_the_deployment_is_reported_and_not_overwritten(
    api: Api, pool: PoolHandle
) -> None:
    pool.apply({**BARE, "replicas": 0})
    await_children(api, pool)
    path = f"{pool.children['Deployment']}/scale?fieldManager=another-autoscaler"
    back, rounds = "the operator sets it back", 0
    while pool.condition("Scaling").get("reason") != "ReplicasContested":
        rounds += 1
        assert rounds <= 8
        api.merge(path, {"spec": {"replicas": 2}})

        def answered() -> bool | str:
            reason = pool.condition("Scaling").get("reason", "")
            return deployed(api, pool) == 0 or reason == "ReplicasContested" or str(reason)

        until(back, answered, seconds=30)
    assert rounds >= 4, "a single manual edit is reverted without a report"
    assert deployed(api, pool) == 2, "the count is left alone"
    scaling = pool.condition("Scaling")
    assert "point that writer at the InferencePool's scale" in scaling["message"]
    version = api.request("GET", pool.children["Deployment"])["metadata"]["resourceVersion"]
    api.merge(path, {"spec": {"replicas": 3}})
    until("the newer count is reported", lambda: "now 3" in pool.condition("Scaling")["message"])
    assert deployed(api, pool) == 3
    assert version != api.request("GET", pool.children["Deployment"])["metadata"]["resourceVersion"]
