"""What the builders write, against the real API server: accepted, and as wanted once it is stored."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock_api import names
from penstock_api.pool import PoolSpec
from penstock_operator import kinds
from penstock_operator.decide.children.volumes import SCRATCH_FOLDER
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.plan import ChildWrite, PoolPlan, Write
from penstock_operator.observe.convert import child_object
from tests.integration.api.full import CLAIM_SPEC, MODULE_SPEC
from tests.kube.api import Api
from tests.kube.target import Target
from tests.unit.decide.world import MODULE, World, pool

pytestmark = pytest.mark.integration
CRDS = Path(__file__).parents[3] / "crds"
CONFIG = DecideConfig(default_runtime_image="localhost/penstock-busybox:1")
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
}


@pytest.fixture(scope="module")
def api() -> Api:
    target = Target.from_env()
    target.kubectl("apply", "--server-side", "--force-conflicts", "-f", CRDS)
    return target.api()


@pytest.fixture(scope="module")
def namespace(api: Api) -> Iterator[str]:
    name = f"penstock-test-children-{time.time_ns() % 10**9}"
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": name, "labels": restricted}
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


def world(api: Api, namespace: str, name: str, spec: dict[str, Any]) -> World:
    """A pool that no operator acts on, because no operator runs: only its children are made, by hand."""
    created = api.create(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.POOL_KIND,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**spec, "replicas": 0, "scaling": {"mode": "Manual"}},
        }
    )
    found = pool(name=name, uid=created["metadata"]["uid"])
    stored = PoolSpec.model_validate(created["spec"])
    return World(pool=replace(found, namespace=namespace, spec=stored), config=CONFIG)


def make(api: Api, plan: PoolPlan) -> None:
    for write in plan.writes:
        assert write.write is Write.CREATE
        kind = kinds.BY_KIND[write.kind]
        path = kind.path(write.manifest["metadata"]["namespace"])
        api.request("POST", f"{path}?fieldManager={names.FIELD_MANAGER}", dict(write.manifest))


def look(api: Api, seen: World, written: tuple[ChildWrite, ...]) -> None:
    """Let the world see every child as the API server has it."""
    for write in written:
        kind, own = kinds.BY_KIND[write.kind], write.manifest["metadata"]
        raw = api.get(kind.path(own["namespace"], own["name"]))
        assert raw is not None
        held = child_object(write.kind, raw)
        if write.kind == "ControllerRevision":
            seen.revisions = [held]
        else:
            seen.children[write.kind, own["name"]] = held


@pytest.mark.parametrize("name", SPECS)
def test_children_are_accepted_and_a_second_look_wants_no_write(
    api: Api, namespace: str, name: str
) -> None:
    seen = world(api, namespace, f"pool-{name}", SPECS[name])
    plan = seen.run()
    make(api, plan)
    look(api, seen, plan.writes)
    assert seen.run().writes == ()
    time.sleep(1)  # the cluster's own controllers have had their say
    look(api, seen, plan.writes)
    seen.states.clear()
    assert seen.run().writes == ()


@pytest.mark.parametrize("name", ["plain", "cpu", "empty"])
def test_pods_are_admitted_under_restricted_pod_security(
    api: Api, namespace: str, name: str
) -> None:
    seen = world(api, namespace, f"restricted-{name}", SPECS[name])
    make(api, seen.run())
    deployment = next(one.manifest for one in seen.run().writes if one.kind == "Deployment")
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": f"pod-{name}", "namespace": namespace}
    body = {**template, "apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    admitted = api.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    assert admitted["spec"]["automountServiceAccountToken"] is False
