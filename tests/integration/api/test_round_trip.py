"""Every field of the API survives a round trip through the real API server and the typed models."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock_api.codegen.crdgen import POLICY, POOL, CustomResource, definition
from penstock_api.types.policy import PolicySpec, PolicyStatus
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from tests.integration.api import full
from tests.integration.api.cases import Object
from tests.support.kube.api import Api

pytestmark = pytest.mark.integration

GROUP = "/apis/penstock.dev/v1alpha1"


def schema_paths(schema: Object, path: str) -> Iterator[str]:
    """Yield the path of every field; lists and maps are walked into."""
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from schema_paths(child, f"{path}.{name}")
    if "items" in schema:
        yield from schema_paths(schema["items"], path)


def value_paths(value: Any, path: str) -> Iterator[str]:
    """Yield the path of every field that `value` sets."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield f"{path}.{name}"
            yield from value_paths(child, f"{path}.{name}")
    if isinstance(value, list):
        for item in value:
            yield from value_paths(item, path)


def fields_of(kind: CustomResource, part: str) -> set[str]:
    (version,) = definition(kind)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"][part]
    return set(schema_paths(schema, part))


@pytest.mark.parametrize(
    ("kind", "part", "values"),
    [
        (POOL, "spec", [*full.POOL_SPECS]),
        (POOL, "status", [full.POOL_STATUS]),
        (POLICY, "spec", [full.POLICY_SPEC, full.NARROW_POLICY_SPEC]),
        (POLICY, "status", [full.POLICY_STATUS]),
    ],
    ids=["pool-spec", "pool-status", "policy-spec", "policy-status"],
)
def test_the_examples_set_every_field(
    kind: CustomResource, part: str, values: list[Object]
) -> None:
    example_paths = {path for value in values for path in value_paths(value, part)}
    assert fields_of(kind, part) - example_paths == set()


@pytest.mark.parametrize(
    "spec",
    full.POOL_SPECS,
    ids=[
        "module",
        "claim",
        "hugging-face",
        "image",
        "s3",
        "hugging-face-2",
        "s3-2",
        "generation",
        "share",
        "zero",
        "variants",
    ],
)
def test_a_full_pool_comes_back(api: Api, namespace: str, spec: Object) -> None:
    path = f"{GROUP}/namespaces/{namespace}/inferencepools"
    manifest = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"generateName": "full-"},
        "spec": spec,
    }
    created = api.request("POST", f"{path}?fieldValidation=Strict", manifest)
    own = f"{path}/{created['metadata']['name']}"
    created["status"] = full.POOL_STATUS
    stored = api.request("PUT", f"{own}/status?fieldValidation=Strict", created)
    assert stored["spec"] == spec
    assert stored["status"] == full.POOL_STATUS
    typed = PoolSpec.model_validate(stored["spec"])
    assert typed.model_dump(mode="json", by_alias=True, exclude_none=True) == spec
    status = PoolStatus.model_validate(stored["status"])
    assert status.model_dump(mode="json", by_alias=True, exclude_none=True) == full.POOL_STATUS
    api.delete(own)


@pytest.mark.parametrize(
    "spec", [full.POLICY_SPEC, full.NARROW_POLICY_SPEC], ids=["with-bounds", "by-pool-labels"]
)
def test_a_full_policy_comes_back(api: Api, spec: Object) -> None:
    """Created as a dry run only: a policy is cluster-scoped, and the cluster may be in use."""
    typed = PolicySpec.model_validate(spec)
    assert typed.model_dump(mode="json", by_alias=True, exclude_none=True) == spec
    manifest = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "InferencePolicy",
        "metadata": {"name": "full"},
        "spec": spec,
    }
    path = f"{GROUP}/inferencepolicies?fieldValidation=Strict&dryRun=All"
    assert api.request("POST", path, manifest)["spec"] == spec
    status = PolicyStatus.model_validate(full.POLICY_STATUS)
    assert status.model_dump(mode="json", by_alias=True, exclude_none=True) == full.POLICY_STATUS
