"""The real API server accepts the manifests of children, and stored children need no further write."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock_api import names
from penstock_api.types.pool import PoolSpec
from penstock_operator.decide.actions import Write
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.pod_template.volumes import SCRATCH_FOLDER
from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.convert import child_object
from tests.integration.api.full import CLAIM_SPEC, GENERATION_SPEC, MODULE_SPEC
from tests.support.kube import namespaces
from tests.support.kube.api import Api
from tests.support.kube.target import Target
from tests.unit.operator.decide.world import MODULE, World, pool

pytestmark = pytest.mark.integration
CONFIG = DecideConfig(default_runtime_image="localhost/penstock-busybox:1")
ACCOUNT: dict[str, Any] = {"apiVersion": "v1", "kind": "ServiceAccount"}
PLAIN: dict[str, Any] = {"model": MODULE}
CPU = {**PLAIN, "accelerator": {"resourceName": "nvidia.com/gpu", "count": 0}}
EMPTY_HANDED = {
    **PLAIN,
    "template": {
        "labels": {},
        "tolerations": [],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "container": {
            "env": [{"name": "EMPTY", "value": ""}, {"name": "OMP_NUM_THREADS", "value": "2"}],
            "resources": {
                "limits": {"cpu": "1000m", "memory": "1024Mi"},
                "requests": {"cpu": "0.5"},
            },
            "volumeMounts": [
                {"name": "v", "mountPath": SCRATCH_FOLDER},
                {"name": "v", "mountPath": "/again", "readOnly": False},
            ],
        },
    },
}
SPECS = {
    "plain": PLAIN,
    "cpu": CPU,
    "empty": EMPTY_HANDED,
    "module": MODULE_SPEC,
    "claim": CLAIM_SPEC,
    "generation": GENERATION_SPEC,
    "platform": {**CPU, "template": {"securityContext": {"ids": "Platform"}}},
    "own-ids": {**CPU, "template": {"securityContext": {"runAsUser": 1000, "runAsGroup": 0}}},
}


@pytest.fixture(scope="module")
def api(empty_stage: None) -> Api:
    return Target.from_env().api()


@pytest.fixture(scope="module")
def namespace(api: Api) -> Iterator[str]:
    with namespaces.namespace(api, "children") as name:
        yield name


def world(namespace: str, spec: dict[str, Any]) -> World:
    """A pool that exists only in this test, so its children are created as dry runs."""
    stored = PoolSpec.model_validate(spec)
    return World(pool=replace(pool(), namespace=namespace, spec=stored), config=CONFIG)


def make(api: Api, observed: World) -> None:
    """Add every child to the world as the API server would store it."""
    for write in observed.run().writes:
        assert write.write is Write.CREATE
        kind, own = kinds.BY_KIND[write.kind], write.manifest["metadata"]
        path = f"{kind.path(own['namespace'])}?dryRun=All&fieldManager={names.FIELD_MANAGER}"
        raw = api.request("POST", path, dict(write.manifest))
        child = child_object(
            write.kind, {**raw, "metadata": {"resourceVersion": "1", **raw["metadata"]}}
        )
        if write.kind == "ControllerRevision":
            observed.revisions = [child]
        else:
            observed.children[write.kind, own["name"]] = child


@pytest.mark.parametrize("name", SPECS)
def test_children_are_accepted_and_a_second_pass_writes_nothing(
    api: Api, namespace: str, name: str
) -> None:
    observed = world(namespace, SPECS[name])
    make(api, observed)
    assert len(observed.children) == 5
    assert observed.run().writes == ()
    observed.states.clear()
    assert observed.run().writes == ()


@pytest.mark.parametrize("name", ["plain", "cpu", "empty", "platform", "own-ids"])
def test_pods_are_admitted_under_restricted_pod_security(
    api: Api, namespace: str, name: str
) -> None:
    observed = world(namespace, SPECS[name])
    observed.settle()
    api.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        ACCOUNT | {"metadata": {"name": f"account-{name}"}},
    )
    spec = {**observed.template["spec"], "serviceAccountName": f"account-{name}"}
    metadata = {**observed.template["metadata"], "name": f"pod-{name}", "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    admitted = api.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    assert admitted["spec"]["automountServiceAccountToken"] is False
