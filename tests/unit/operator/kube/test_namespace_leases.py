"""Leases of namespaces: where this process leads, and which writes they permit."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from penstock_operator.act.rate_limit import TokenBucket, Urgency, WriteBudget
from penstock_operator.act.writer import Writer
from penstock_operator.errors import NotLeading
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient, ApiRequest
from penstock_operator.kube.leader_election import Leadership
from penstock_operator.kube.namespace_leases import Leases


@dataclass
class FakeLeadership:
    """A Lease that is held or not."""

    is_held: bool
    transitions: int = 0

    def valid(self, _: float | None = None) -> bool:
        return self.is_held


def leases(own: bool, **within: bool) -> Leases:
    by_namespace = {
        name.replace("_", "-"): cast("Leadership", FakeLeadership(leads, 3))
        for name, leads in within.items()
    }
    return Leases(cast("Leadership", FakeLeadership(own, 7)), by_namespace)


def test_the_lease_of_a_namespace_counts_only_with_the_installations_own() -> None:
    assert leases(own=True, team_a=True).valid_in("team-a")
    assert not leases(own=True, team_a=False).valid_in("team-a")
    assert not leases(own=False, team_a=True).valid_in("team-a")


def test_in_scope_cluster_the_own_lease_counts_everywhere() -> None:
    cluster_wide = leases(own=True)
    assert cluster_wide.valid_in("anywhere")
    assert cluster_wide.valid_in(None)
    assert cluster_wide.transitions_in("anywhere") == 7
    assert leases(own=True, team_a=True).transitions_in("team-a") == 3


def send(path: str, leading: Callable[[str | None], bool]) -> None:
    class FakeClient:
        async def send(self, request: ApiRequest, permit: Callable[[], None]) -> dict[str, Any]:
            permit()
            return {}

    writer = Writer(
        cast("ApiClient", FakeClient()), WriteBudget(TokenBucket(), lambda: 0.0), leading
    )
    asyncio.run(writer.write(kinds.POOL, "status", ApiRequest("PATCH", path), Urgency.CONDITION))


def test_a_write_needs_the_lease_of_its_namespace() -> None:
    current = leases(own=True, team_a=True, team_b=False)
    send(kinds.POOL.path("team-a", "chat") + "/status", current.valid_in)
    with pytest.raises(NotLeading):
        send(kinds.POOL.path("team-b", "chat") + "/status", current.valid_in)
    send(kinds.CONFIG_MAP.path("system", "record"), current.valid_in)
    send(kinds.POLICY.path(None, "prod") + "/status", current.valid_in)
