"""Served scope: which kinds are listed and watched in which namespace."""

import pytest

from penstock_operator.config import OperatorConfig
from penstock_operator.kube import kinds
from penstock_operator.kube.scope import CLUSTER, namespaces_scope, optional_kinds

SCOPE = namespaces_scope(("team-a", "team-b"), "system", policies_readable=True)


def test_each_namespace_the_policies_and_the_records_are_watched_separately() -> None:
    watched = {watch.namespace: watch.kinds for watch in SCOPE.watches}
    assert watched["system"] == (kinds.CONFIG_MAP,)
    assert watched[None] == (kinds.POLICY,)
    assert set(watched["team-a"]) == set(kinds.WATCHED) - {kinds.POLICY, kinds.NAMESPACE}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ()),
        ({"leader_worker_sets": "Enabled"}, kinds.GROUP_KINDS),
        ({"gateway_image": "gateway:1"}, (kinds.ROLE_BINDING,)),
    ],
)
def test_kinds_of_other_controllers_are_watched_where_they_are_used(
    settings: dict[str, str], expected: tuple[kinds.ResourceKind, ...]
) -> None:
    assert optional_kinds(OperatorConfig("system", "runtime:1", **settings)) == expected  # type: ignore[arg-type]
    scope = namespaces_scope(("team-a",), "system", policies_readable=False, optional=expected)
    assert set(expected) <= set(scope.watches[0].kinds)


def test_policies_without_read_permission_are_not_watched() -> None:
    scope = namespaces_scope(("system",), "system", policies_readable=False)
    assert [watch.namespace for watch in scope.watches] == ["system"]


def test_only_served_namespaces_are_optional() -> None:
    optional = [watch.namespace for watch in SCOPE.watches if SCOPE.is_optional(watch)]
    assert optional == ["team-a", "team-b"]
    assert not CLUSTER.is_optional(CLUSTER.watches[0])
