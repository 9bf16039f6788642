"""Scope Namespaces: a Role in each namespace that is served, and next to nothing of the cluster."""

from collections import Counter

import pytest

from penstock_api import names
from tests.unit.charts.rendered import CHART, Object, only, rejection, render
from tests.unit.charts.test_rights import grants


def two(**more: str) -> list[Object]:
    """Render an installation of two namespaces."""
    return render(CHART, scope="Namespaces", namespaces="{team-a,team-b}", **more)


@pytest.fixture(scope="module")
def scoped() -> list[Object]:
    return two(rbac__people="false")


def test_each_namespace_has_a_role_and_its_binding_to_the_operators_account(
    scoped: list[Object],
) -> None:
    account = only(scoped, "ServiceAccount")["metadata"]["name"]
    bound = {
        (
            manifest["metadata"]["namespace"],
            manifest["subjects"][0]["name"],
            manifest["subjects"][0]["namespace"],
        )
        for manifest in scoped
        if manifest["kind"] == "RoleBinding"
    }
    homes = ("penstock-system", "team-a", "team-b")
    assert bound == {(home, account, "penstock-system") for home in homes}


def test_a_namespaces_role_is_the_cluster_role_less_policies_and_other_namespaces(
    scoped: list[Object],
) -> None:
    wide = Counter(grants(only(render(), "ClusterRole", "-operator")))
    roles = [manifest for manifest in scoped if manifest["metadata"].get("namespace") == "team-a"]
    narrow = Counter(grants(only(roles, "Role")))
    assert {grant for grant in wide - narrow if "policies" not in grant[1]} == {
        ("", "namespaces", "list"),
        ("", "namespaces", "watch"),
    }
    assert set(narrow - wide) == {
        ("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update", "patch")
    }


def test_a_namespaces_lease_is_bound_by_name(scoped: list[Object]) -> None:
    role = only(
        [manifest for manifest in scoped if manifest["metadata"].get("namespace") == "team-b"],
        "Role",
    )
    (rule,) = [entry for entry in role["rules"] if "resourceNames" in entry]
    assert rule["resourceNames"] == [names.NAMESPACE_LEASE_NAME]


def test_of_the_cluster_only_policies_are_read(scoped: list[Object]) -> None:
    role = only(scoped, "ClusterRole")
    assert {verb for _, _, verb in grants(role)} == {"get", "list", "watch"}
    assert {resource for _, resource, _ in grants(role)} == {names.POLICY_PLURAL}


def test_without_policies_nothing_of_the_cluster_is_left() -> None:
    manifests = two(rbac__people="false", rbac__readPolicies="false")
    assert not {manifest["kind"] for manifest in manifests} & {"ClusterRole", "ClusterRoleBinding"}


def test_the_operators_environment_has_its_namespaces(scoped: list[Object]) -> None:
    (operator,) = only(scoped, "Deployment")["spec"]["template"]["spec"]["containers"]
    env = {variable["name"]: variable.get("value") for variable in operator["env"]}
    assert env["PENSTOCK_SCOPE"] == "Namespaces"
    assert env["PENSTOCK_NAMESPACES"] == "team-a,team-b"


def test_names_of_cluster_objects_include_the_releases_namespace() -> None:
    manifests = two()
    cluster_objects = [
        manifest["metadata"]["name"]
        for manifest in manifests
        if manifest["kind"].startswith("ClusterRole")
    ]
    assert cluster_objects
    assert all(name.startswith("penstock-penstock-system-") for name in cluster_objects)


def test_pods_are_scraped_where_they_are_served() -> None:
    monitor = only(two(poolMonitor__enabled="true"), "PodMonitor")
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


@pytest.mark.parametrize(
    ("name", "value"),
    [("scope", "Namespaces"), ("scope", "Half"), ("namespaces", "{team-a}")],
)
def test_an_invalid_scope_is_rejected(name: str, value: str) -> None:
    assert "namespaces" in rejection(name, value) or "scope" in rejection(name, value)
