"""The gateway on the real API server, with the rights of its ServiceAccount alone."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_api import names
from tests.support.gateway import api_server
from tests.support.gateway.load import load
from tests.support.gateway.stack import Stack, kill, stack
from tests.support.kube import namespaces
from tests.support.kube.api import Api, Object
from tests.support.kube.target import Target

ACCOUNT = "gateway"
FINALIZER = "penstock.dev/test"


@pytest.fixture(scope="module")
def api(_cluster: object) -> Api:
    return Target.from_env().api()


@asynccontextmanager
async def on_cluster(api: Api, kubeconfig: Path, namespace: str) -> AsyncIterator[Stack]:
    """Run a gateway with a token of an account that may list and watch Services and pods of its namespace."""
    for manifest in rights(namespace):
        api.apply(manifest, namespace=namespace)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", path, request)["status"]["token"]
    cluster = _cluster_of(kubeconfig)
    settings = {"PENSTOCK_NAMESPACE": namespace, "PENSTOCK_API_SERVER": cluster["server"]}
    async with stack(settings, api_server.ApiServer()) as running:
        running.settings["PENSTOCK_CA_FILE"] = str(running.folder / "ca.crt")
        (running.folder / "token").write_text(token)
        (running.folder / "ca.crt").write_bytes(authority(cluster))
        await running.start_controller()
        await running.start_envoy()
        yield running


def _cluster_of(kubeconfig: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"])


def authority(cluster: dict[str, Any]) -> bytes:
    """Return the CA of a kubeconfig's cluster."""
    if "certificate-authority-data" in cluster:
        return base64.b64decode(cluster["certificate-authority-data"])
    return Path(cluster["certificate-authority"]).read_bytes()


def rights(namespace: str) -> list[Object]:
    """Return the ServiceAccount of a gateway, and what it needs."""
    rbac = "rbac.authorization.k8s.io"
    named = {"name": ACCOUNT, "namespace": namespace}
    verbs = {"apiGroups": [""], "resources": ["services", "pods"], "verbs": ["list", "watch"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": [verbs]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", **named}],
        },
    ]


def create_pod(api: Api, namespace: str, name: str, address: str) -> None:
    """Create a pod that no node runs, with the status that a kubelet would write."""
    template = api_server.pod(name, "demo", address)
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "runtime",
        "image": "none.invalid/none",
        "securityContext": restricted,
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "namespace": namespace, "finalizers": [FINALIZER]},
        "spec": {"containers": [container], "schedulingGates": [{"name": "penstock.dev/test"}]},
    }
    api.create(manifest)
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    status = {**template["status"], "podIPs": [{"ip": address}]}
    api.merge(f"{path}/status", {"status": status})


async def test_pods_and_services_of_the_cluster_reach_envoy(api: Api, kubeconfig: Path) -> None:
    with namespaces.namespace(api, "gateway") as namespace:
        service = api_server.service("demo", 10001)
        service |= {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 8000}]}}
        service["metadata"]["namespace"] = namespace
        api.create(service)
        async with on_cluster(api, kubeconfig, namespace) as gateway:
            await gateway.until_ready()
            for name in ("pod-0", "pod-1"):
                await gateway.start_pod(name)
                create_pod(api, namespace, name, gateway.address(name))
            await gateway.until_endpoints(2)
            async with load(gateway.url()) as tally:
                await gateway.until(lambda: len(tally.by_pod) == 2)
                pods = f"/api/v1/namespaces/{namespace}/pods"
                api.delete(f"{pods}/pod-0")  # its finalizer keeps it, with a deletion timestamp
                await gateway.until_endpoints(1)
                await kill(gateway.pods["pod-0"])
                await gateway.until_more(lambda: tally.answered, 50)
            assert tally.lost == []
            announced = {"metadata": {"annotations": {names.ANNOTATION_GATEWAY_PORT: "10002"}}}
            api.merge(f"/api/v1/namespaces/{namespace}/services/demo", announced)
            await gateway.until_status(lambda status: status["pools"]["demo"]["port"] == 10002)
            await gateway.until_endpoints(1)
            async with gateway.client.post(gateway.url("/infer", 10002)) as answer:
                assert answer.status == 200
            for name in ("pod-0", "pod-1"):
                api.merge(f"{pods}/{name}", {"metadata": {"finalizers": None}})
                api.delete(f"{pods}/{name}", grace_seconds=0)
            await gateway.until_status(lambda status: not status["pools"]["demo"]["endpoints"])


async def test_missing_rights_are_visible_and_heal(api: Api, kubeconfig: Path) -> None:
    with namespaces.namespace(api, "gateway") as namespace:
        async with on_cluster(api, kubeconfig, namespace) as gateway:
            await gateway.until_ready()
            api.delete(
                f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/{ACCOUNT}"
            )
            await kill(gateway.controller)
            await gateway.start_controller()
            await gateway.until(lambda: "cannot list resource" in gateway.log("controller"))
            (binding,) = (item for item in rights(namespace) if item["kind"] == "RoleBinding")
            api.apply(binding, namespace=namespace)
            await gateway.until_ready()
