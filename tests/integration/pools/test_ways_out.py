"""Escalation attempts of a tenant with write access to pools only, on the API server: all are rejected.

Attempts over the network are in tests/unit/runtime/http/test_ways_out.py; docs/reference/security.md lists them all.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock_api import names
from tests.integration.pools.tenant import rejection, tenant
from tests.integration.pools.test_children import (
    BARE,
    await_children,
    spec_of,
    stranger_deployment,
    stranger_service,
)
from tests.support.kube.api import POOLS, Api, Object
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until

pytestmark = pytest.mark.integration

POLICY = "/apis/penstock.dev/v1alpha1/inferencepolicies/ways-out"


@pytest.fixture
def outsider(api: Api, namespace: str, kubeconfig: Path, tmp_path: Path) -> Api:
    return tenant(api, namespace, kubeconfig, tmp_path)


@pytest.fixture
def tenant_pool(outsider: Api, namespace: str) -> PoolHandle:
    """A pool handle with the tenant's credentials."""
    return PoolHandle(outsider, namespace, "chat")


def pool_of(spec: Object, name: str = "chat") -> Object:
    head = {"apiVersion": names.API_VERSION, "kind": names.POOL_KIND}
    return {**head, "metadata": {"name": name}, "spec": {**BARE, **spec}}


def path_of(namespace: str, *, strict: bool = True) -> str:
    return f"{POOLS}/namespaces/{namespace}/inferencepools" + "?fieldValidation=Strict" * strict


@contextmanager
def bounds(api: Api, namespace: str, **template: list[str]) -> Iterator[None]:
    """An administrator's bounds on the pods of this namespace."""
    api.apply(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.POLICY_KIND,
            "metadata": {"name": "ways-out"},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "bounds": {"template": template},
            },
        }
    )
    try:
        yield
    finally:
        api.delete(POLICY)


def test_a_name_in_use_by_another_owner_takes_nothing_over(
    api: Api, tenant_pool: PoolHandle
) -> None:
    strangers = [stranger_service(tenant_pool), stranger_deployment(tenant_pool)]
    before = [api.create(stranger) for stranger in strangers]
    tenant_pool.apply(BARE)
    tenant_pool.await_condition("Ready", "False", "NameConflict", seconds=20)
    paths = [tenant_pool.children["Service"], tenant_pool.children["Deployment"]]
    assert [spec_of(api.request("GET", path)) for path in paths] == [
        spec_of(stranger) for stranger in before
    ]
    assert api.get(tenant_pool.children["ConfigMap"]) is None, (
        "no child is created unless all can be"
    )


@pytest.mark.parametrize("strict", [True, False])
def test_a_host_path_is_rejected(outsider: Api, namespace: str, *, strict: bool) -> None:
    volume = {"name": "root", "hostPath": {"path": "/"}}
    body = pool_of({"template": {"volumes": [volume]}})
    status, message = rejection(outsider, "POST", path_of(namespace, strict=strict), body)
    assert status in (400, 422)
    assert "hostPath" in message if strict else "sets 0 sources" in message


def test_a_service_account_that_is_not_allowed_runs_nothing(
    api: Api, tenant_pool: PoolHandle, namespace: str
) -> None:
    with bounds(api, namespace, serviceAccountNames=[]):
        tenant_pool.apply({**BARE, "template": {"serviceAccountName": "tenant"}})
        tenant_pool.await_condition("PolicyApplied", "False", "TemplateNotAllowed", seconds=20)
        assert api.get(tenant_pool.children["Deployment"]) is None


def test_reserved_labels_cannot_make_a_pod_part_of_another_pool(
    outsider: Api, namespace: str
) -> None:
    for key in (names.LABEL_POOL_UID, "app.kubernetes.io/name", names.ANNOTATION_SCHEME):
        for part in ("labels", "annotations"):
            body = pool_of({"template": {part: {key: "other"}}})
            status, message = rejection(outsider, "POST", path_of(namespace), body)
            assert (status, "are reserved" in message) == (422, True), message


@pytest.mark.parametrize(
    "way",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"initContainers": []},
        {"container": {"securityContext": {"privileged": True}}},
        {"container": {"command": ["sh"]}},
    ],
    ids=lambda way: next(iter(way)),
)
def test_a_template_that_leaves_the_sandbox_is_rejected_or_has_no_effect(
    api: Api, tenant_pool: PoolHandle, namespace: str, way: Object
) -> None:
    status, message = rejection(
        tenant_pool.api, "POST", path_of(namespace), pool_of({"template": way})
    )
    assert (status, "unknown field" in message) == (400, True), message
    tenant_pool.api.request("POST", path_of(namespace, strict=False), pool_of({"template": way}))
    await_children(api, tenant_pool)
    pod = api.request("GET", tenant_pool.children["Deployment"])["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "initContainers"} & pod.keys()
    (container,) = pod["containers"]
    assert "command" not in container
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]


def test_an_image_that_is_not_allowed_runs_nothing(
    api: Api, tenant_pool: PoolHandle, namespace: str
) -> None:
    with bounds(api, namespace, allowedImages=["registry.example/"]):
        image = "registry.example.attacker.dev/miner:1"
        tenant_pool.apply({**BARE, "runtime": {"image": image}})
        tenant_pool.await_condition("PolicyApplied", "False", "TemplateNotAllowed", seconds=20)
        assert image in tenant_pool.condition("PolicyApplied")["message"]
        assert api.get(tenant_pool.children["Deployment"]) is None


def test_a_pool_cannot_choose_the_servers_that_the_operator_connects_to(
    outsider: Api, namespace: str
) -> None:
    prometheus = {"metrics": {"prometheus": {"url": "http://169.254.169.254/"}}}
    status, message = rejection(outsider, "POST", path_of(namespace), pool_of(prometheus))
    assert (status, "unknown field" in message) == (400, True), message
    stored = outsider.request("POST", path_of(namespace, strict=False), pool_of(prometheus))
    assert "metrics" not in stored["spec"]
    head = {"apiVersion": names.API_VERSION, "kind": names.POLICY_KIND}
    policy = {**head, "metadata": {"name": "mine"}, "spec": prometheus}
    status, _ = rejection(outsider, "POST", POLICY.rpartition("/")[0], policy)
    assert status == 403


def test_a_service_exposes_only_the_client_port(api: Api, tenant_pool: PoolHandle) -> None:
    tenant_pool.apply(BARE)
    await_children(api, tenant_pool)
    (port,) = api.request("GET", tenant_pool.children["Service"])["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (names.CLIENT_PORT, names.CLIENT_PORT_NAME)
    assert str(names.CLUSTER_PORT) not in json.dumps(port)


def test_a_tenant_reads_no_secret_and_forges_no_status(
    api: Api, tenant_pool: PoolHandle, operator: OperatorProcess
) -> None:
    tenant_pool.apply(BARE)
    await_children(api, tenant_pool)
    key = f"/api/v1/namespaces/{operator.namespace}/secrets/{names.SIGNING_KEY_SECRET}"
    until("the signing key is there", lambda: api.get(key) is not None, seconds=20)
    assert rejection(tenant_pool.api, "GET", key, {})[0] == 403
    forged = {"status": {"desiredReplicas": 1000}}
    assert (
        rejection(
            tenant_pool.api, "PUT", f"{tenant_pool.path}/status", {**tenant_pool.get(), **forged}
        )[0]
        == 403
    )
    limits = {"data": {names.CONTROL_KEYS_FILE: "{}"}}
    assert rejection(tenant_pool.api, "PUT", tenant_pool.children["ConfigMap"], limits)[0] == 403
