"""What the chart lets the operator, and people, do."""

from collections.abc import Iterator

import pytest

from penstock_api import names
from tests.unit.charts.rendered import CHART, Object, only, render


@pytest.fixture(scope="module")
def plain() -> list[Object]:
    return render()


def grants(role: Object) -> Iterator[tuple[str, str, str]]:
    """Yield (group, resource, verb) of every rule."""
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def test_no_rule_has_a_wildcard(plain: list[Object]) -> None:
    for manifest in plain:
        if manifest["kind"] in ("ClusterRole", "Role"):
            assert "*" not in {word for grant in grants(manifest) for word in grant}


def test_the_operator_reads_no_nodes_no_secrets_and_no_crds(plain: list[Object]) -> None:
    resources = {resource for _, resource, _ in grants(only(plain, "ClusterRole", "-operator"))}
    assert not resources & {
        "nodes",
        "secrets",
        "customresourcedefinitions",
        "pods/exec",
        "pods/log",
        "persistentvolumeclaims",
        "roles",
        "clusterroles",
    }


def test_the_operator_writes_the_specs_of_no_policy_and_of_pools_for_variants_only(
    plain: list[Object],
) -> None:
    """It creates, repairs and deletes the pools of variants, which RBAC does not distinguish from other pools."""
    granted = set(grants(only(plain, "ClusterRole", "-operator")))
    read = {"get", "list", "watch"}
    for plural, expected in (
        (names.POOL_PLURAL, {*read, "create", "patch", "delete"}),
        (names.POLICY_PLURAL, read),
    ):
        verbs = {
            verb for group, resource, verb in granted if (group, resource) == (names.GROUP, plural)
        }
        assert verbs == expected


def test_the_operator_only_looks_at_pods_and_namespaces(plain: list[Object]) -> None:
    granted = set(grants(only(plain, "ClusterRole", "-operator")))
    for resource in ("pods", "namespaces", "replicasets"):
        assert {v for _, r, v in granted if r == resource} == {"get", "list", "watch"}


def test_secrets_and_leases_are_its_own_namespaces_and_bound_by_name(plain: list[Object]) -> None:
    role = only(plain, "Role")
    assert role["metadata"]["namespace"] == "penstock-system"
    named = {
        (rule["resources"][0], tuple(rule["resourceNames"]))
        for rule in role["rules"]
        if "resourceNames" in rule
    }
    assert named == {
        ("secrets", (names.SIGNING_KEY_SECRET,)),
        ("leases", (names.LEASE_NAME,)),
    }
    unnamed = [rule for rule in role["rules"] if "resourceNames" not in rule]
    assert {tuple(rule["verbs"]) for rule in unnamed} == {("create",)}


def test_what_prometheus_needs_is_read_by_name_and_nothing_else_is() -> None:
    objects = render(
        prometheus__url="https://prometheus.monitoring:9090",
        prometheus__credentialsSecret="reader",
        prometheus__caConfigMap__name="ca",
        prometheus__policySecrets="{reader,other}",
    )
    readable = {
        rule["resources"][0]: (rule["resourceNames"], rule["verbs"])
        for rule in only(objects, "Role")["rules"]
        if rule["verbs"] == ["get"]
    }
    assert readable == {"secrets": (["reader", "other"], ["get"]), "configmaps": (["ca"], ["get"])}


def test_bindings_bind_the_operators_own_account(plain: list[Object]) -> None:
    account = only(plain, "ServiceAccount")["metadata"]
    pod = only(plain, "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert only(plain, kind)["subjects"] == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": "penstock-system"}
        ]


def aggregated_to(role: Object) -> set[str]:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    return {label.removeprefix(prefix) for label in role["metadata"]["labels"] if prefix in label}


def test_who_views_a_namespace_sees_its_pools(plain: list[Object]) -> None:
    role = only(plain, "ClusterRole", "-view")
    assert aggregated_to(role) == {"view", "edit", "admin"}
    assert {verb for _, _, verb in grants(role)} == {"get", "list", "watch"}


def test_writing_pools_is_given_by_hand_unless_a_value_says_so(plain: list[Object]) -> None:
    assert aggregated_to(only(plain, "ClusterRole", "-pool-edit")) == set()
    opened = only(render(rbac__aggregatePoolEdit="true"), "ClusterRole", "-pool-edit")
    assert aggregated_to(opened) == {"edit", "admin"}
    assert {resource for _, resource, _ in grants(opened)} == {
        "inferencepools",
        "inferencepools/scale",
    }


def test_writing_policies_comes_with_no_built_in_role(plain: list[Object]) -> None:
    assert aggregated_to(only(plain, "ClusterRole", "-policy-edit")) == set()
    opened = render(rbac__aggregatePoolEdit="true")
    assert aggregated_to(only(opened, "ClusterRole", "-policy-edit")) == set()


def test_leader_worker_sets_are_managed_only_where_they_are_enabled(plain: list[Object]) -> None:
    role = only(render(leaderWorkerSets__enabled="true"), "ClusterRole", "-operator")
    added = set(grants(role)) - set(grants(only(plain, "ClusterRole", "-operator")))
    read = {"get", "list", "watch"}
    written = {*read, "create", "patch", "update", "delete"}
    group = "leaderworkerset.x-k8s.io"
    assert added == {
        *((group, "leaderworkersets", verb) for verb in written),
        *(("apps", "statefulsets", verb) for verb in read),
    }


def test_without_rbac_nothing_is_granted() -> None:
    kinds = {manifest["kind"] for manifest in render(rbac__create="false")}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


def of_nodes(**values: str) -> set[tuple[str, str, str]]:
    roles = [each for each in render(CHART, **values) if each["kind"] in ("ClusterRole", "Role")]
    return {grant for role in roles for grant in grants(role) if grant[1] == "nodes"}


@pytest.mark.parametrize("values", [{}, {"scope": "Namespaces", "namespaces": "{team-a}"}])
def test_nodes_are_read_by_name_and_only_on_request(values: dict[str, str]) -> None:
    assert of_nodes(**values) == set()
    assert of_nodes(rbac__readNodes="true", **values) == {("", "nodes", "get")}


def test_the_right_to_nodes_is_bound_to_the_operators_account() -> None:
    objects = render(rbac__readNodes="true")
    binding, account = (
        only(objects, "ClusterRoleBinding", "-nodes"),
        only(objects, "ServiceAccount"),
    )
    assert binding["roleRef"]["name"] == only(objects, "ClusterRole", "-nodes")["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [account["metadata"]["name"]]
