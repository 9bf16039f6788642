"""Scope Namespaces: a Role in each namespace that is served, and next to nothing of the cluster."""

from collections import Counter

import pytest

from penstock_api import names
from tests.unit.charts.rendered import CHART, Object, only, refusal, render
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
        (one["metadata"]["namespace"], one["subjects"][0]["name"], one["subjects"][0]["namespace"])
        for one in scoped
        if one["kind"] == "RoleBinding"
    }
    homes = ("penstock-system", "team-a", "team-b")
    assert bound == {(home, account, "penstock-system") for home in homes}


def test_a_namespaces_role_is_the_cluster_role_less_policies_and_other_namespaces(
    scoped: list[Object],
) -> None:
    wide = Counter(grants(only(render(), "ClusterRole", "-operator")))
    roles = [one for one in scoped if one["metadata"].get("namespace") == "team-a"]
    narrow = Counter(grants(only(roles, "Role")))
    assert {one for one in wide - narrow if "policies" not in one[1]} == {
        ("", "namespaces", "list"),
        ("", "namespaces", "watch"),
    }
    assert set(narrow - wide) == {
        ("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update", "patch")
    }


def test_a_namespaces_lease_is_bound_by_name(scoped: list[Object]) -> None:
    role = only([one for one in scoped if one["metadata"].get("namespace") == "team-b"], "Role")
    (rule,) = [one for one in role["rules"] if "resourceNames" in one]
    assert rule["resourceNames"] == [names.NAMESPACE_LEASE_NAME]


def test_of_the_cluster_only_policies_are_read(scoped: list[Object]) -> None:
    role = only(scoped, "ClusterRole")
    assert {verb for _, _, verb in grants(role)} == {"get", "list", "watch"}
    assert {resource for _, resource, _ in grants(role)} == {names.POLICY_PLURAL}


def test_without_policies_nothing_of_the_cluster_is_left() -> None:
    made = two(rbac__people="false", rbac__readPolicies="false")
    assert not {one["kind"] for one in made} & {"ClusterRole", "ClusterRoleBinding"}


def test_the_operator_is_told_its_namespaces(scoped: list[Object]) -> None:
    (container,) = only(scoped, "Deployment")["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["PENSTOCK_SCOPE"] == "Namespaces"
    assert env["PENSTOCK_NAMESPACES"] == "team-a,team-b"


def test_what_is_in_no_namespace_is_called_by_the_releases_namespace_too() -> None:
    made = two()
    called = [one["metadata"]["name"] for one in made if one["kind"].startswith("ClusterRole")]
    assert called
    assert all(one.startswith("penstock-penstock-system-") for one in called)


def test_pods_are_scraped_where_they_are_served() -> None:
    monitor = only(two(poolMonitor__enabled="true"), "PodMonitor")
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


@pytest.mark.parametrize(
    ("name", "value"),
    [("scope", "Namespaces"), ("scope", "Half"), ("namespaces", "{team-a}")],
)
def test_a_scope_that_makes_no_sense_is_refused(name: str, value: str) -> None:
    assert "namespaces" in refusal(name, value) or "scope" in refusal(name, value)
