"""`helm test`, and the policy with the defaults of pools."""

from typing import Any

import pytest
from pydantic import ValidationError

from penstock_api import names
from penstock_api.types.policy import PolicySpec
from penstock_operator.installation_check import CHECKS
from tests.unit.charts.rendered import (
    CHART,
    IMAGES,
    Object,
    only,
    render,
    render_tests,
    template,
)
from tests.unit.charts.test_rights import grants

HOOK, POLICY = "helm.sh/hook", names.POLICY_KIND
DEFAULTS: Any = {
    "poolDefaults.batching.size.max": "32",
    "poolDefaults.objectives[0].metric": "RequestLatency",
    "poolDefaults.objectives[0].milliseconds": "900",
}


def with_defaults(*arguments: str) -> list[Object]:
    """Return the objects of a release with defaults of pools."""
    values = {**IMAGES, **DEFAULTS}
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    objects = template(CHART, "--skip-tests", *sets, *arguments)
    return [manifest for manifest in objects if manifest["kind"] == POLICY]


def check_arguments(pod: Object) -> tuple[str, ...]:
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["python3", "-m", "penstock_operator.installation_check"]
    return tuple(container["args"])


def test_helm_test_runs_every_check_with_the_operators_image_and_restrictions() -> None:
    *_, pod = render_tests()
    named = ("--namespace=penstock-system", "--deployment=penstock-operator")
    assert check_arguments(pod) == (*named, *CHECKS)
    spec = only(render(), "Deployment")["spec"]["template"]["spec"]
    assert pod["spec"]["securityContext"] == spec["securityContext"]
    (check,), (operator,) = pod["spec"]["containers"], spec["containers"]
    for member in ("image", "imagePullPolicy", "securityContext", "resources"):
        assert check[member] == operator[member]
    assert pod["spec"]["restartPolicy"] == "Never"


def test_a_paused_operator_is_not_expected_to_lead() -> None:
    *_, pod = render_tests(replicas="0")
    assert check_arguments(pod)[2:] == ("served", "accepted")


def test_the_permissions_of_helm_test_exist_while_it_runs() -> None:
    *rights, pod = render_tests()
    assert {manifest["kind"] for manifest in rights} == {"ServiceAccount", "Role", "RoleBinding"}
    for manifest in rights:
        notes = manifest["metadata"]["annotations"]
        assert notes[HOOK] == "test"
        assert notes["helm.sh/hook-weight"] == "-1"
        assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    role, account = only(rights, "Role"), only(rights, "ServiceAccount")["metadata"]["name"]
    assert set(grants(role)) == {
        (names.GROUP, names.POOL_PLURAL, "create"),
        ("apps", "deployments", "get"),
        ("coordination.k8s.io", "leases", "get"),
    }
    assert pod["spec"]["serviceAccountName"] == account


def test_without_rbac_helm_test_runs_as_the_operator() -> None:
    (pod,) = render_tests(rbac__create="false")
    assert pod["spec"]["serviceAccountName"] == "penstock-operator"


def test_there_is_no_policy_without_defaults() -> None:
    assert not [manifest for manifest in render() if manifest["kind"] == POLICY]


def test_the_defaults_of_pools_are_a_policy_of_the_lowest_priority() -> None:
    (policy,) = with_defaults()
    spec = PolicySpec.model_validate(policy["spec"])
    assert spec.priority == -1_000_000
    with pytest.raises(ValidationError):
        PolicySpec.model_validate({"priority": spec.priority - 1})
    assert policy["spec"]["defaults"] == {
        "batching": {"size": {"max": 32}},
        "objectives": [{"metric": "RequestLatency", "milliseconds": 900}],
    }
    assert spec.namespace_selector is None


def test_the_defaults_are_for_the_served_namespaces() -> None:
    scope = ("--set", "scope=Namespaces", "--set", "namespaces={a,b}")
    (policy,) = with_defaults(*scope)
    assert policy["metadata"]["name"] == "penstock-penstock-system-defaults"
    assert policy["spec"]["namespaceSelector"] == {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
        ]
    }
