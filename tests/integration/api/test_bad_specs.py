"""The real API server rejects every invalid spec and names field, value and remedy."""

import pytest

from tests.integration.api import (
    bad_policies,
    bad_pools,
    contradictory_pools,
    contradictory_templates,
)
from tests.integration.api.cases import Bad, Object, policy, pool
from tests.support.kube.api import Api, ApiError

pytestmark = pytest.mark.integration

POOLS = bad_pools.BY_SCHEMA + contradictory_pools.BY_RULE + contradictory_templates.BY_RULE
POLICIES = bad_policies.BY_SCHEMA + bad_policies.BY_RULE


def dry_create(api: Api, path: str, manifest: Object) -> Object:
    return api.request("POST", f"{path}?fieldValidation=Strict&dryRun=All", manifest)


def rejection(api: Api, path: str, manifest: Object) -> str:
    with pytest.raises(ApiError) as caught:
        dry_create(api, path, manifest)
    assert caught.value.status == 422, caught.value.message
    return caught.value.message


def pools(namespace: str) -> str:
    return f"/apis/penstock.dev/v1alpha1/namespaces/{namespace}/inferencepools"


POLICIES_PATH = "/apis/penstock.dev/v1alpha1/inferencepolicies"


def test_there_are_at_least_forty() -> None:
    names = [case.name for case in POOLS + POLICIES]
    assert len(set(names)) == len(names) >= 40


@pytest.mark.parametrize("bad", POOLS, ids=lambda case: case.name)
def test_a_bad_pool_is_rejected(api: Api, namespace: str, bad: Bad) -> None:
    message = rejection(api, pools(namespace), pool(bad.change, bad.metadata_name))
    assert [word for word in bad.expected_words if word not in message] == [], message


@pytest.mark.parametrize("bad", POLICIES, ids=lambda case: case.name)
def test_a_bad_policy_is_rejected(api: Api, bad: Bad) -> None:
    message = rejection(api, POLICIES_PATH, policy(bad.change))
    assert [word for word in bad.expected_words if word not in message] == [], message


def test_the_specs_that_changes_are_merged_into_are_valid(api: Api, namespace: str) -> None:
    dry_create(api, pools(namespace), pool())
    dry_create(api, POLICIES_PATH, policy())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"batchin": {"mode": "Auto"}}, "spec.batchin"),
        ({"batching": {"sise": {"max": 4}}}, "spec.batching.sise"),
        ({"template": {"hostNetwork": True}}, "spec.template.hostNetwork"),
        (
            {"template": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}},
            "spec.template.volumes[0].hostPath",
        ),
        ({"template": {"container": {"securityContext": {}}}}, "container.securityContext"),
    ],
)
def test_an_unknown_field_is_rejected_by_name(
    api: Api, namespace: str, change: Object, field: str
) -> None:
    with pytest.raises(ApiError, match="unknown field") as caught:
        dry_create(api, pools(namespace), pool(change))
    assert field in caught.value.message
