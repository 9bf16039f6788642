"""Namespaces by name: what is listed where, what one that is lost takes with it, and whose Lease counts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from penstock_operator.act.rate_limit import TokenBucket, Urgency, WriteBudget
from penstock_operator.act.writer import Writer
from penstock_operator.errors import NotLeading, Rejected
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient, ApiRequest, Listed
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.kube.leader_election import Leadership
from penstock_operator.kube.namespace_leases import Leases
from penstock_operator.kube.scope import CLUSTER, namespaces_scope
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import NAMESPACE_SECONDS, Resync

SCOPE = namespaces_scope(("team-a", "team-b"), "system", policies_readable=True)


def test_each_namespace_policies_and_the_records_are_places_of_their_own() -> None:
    places = {one.namespace: one.kinds for one in SCOPE.places}
    assert places["system"] == (kinds.CONFIG_MAP,)
    assert places[None] == (kinds.POLICY,)
    assert set(places["team-a"]) == set(kinds.WATCHED) - {kinds.POLICY, kinds.NAMESPACE}


def test_policies_that_may_not_be_read_are_not_listed() -> None:
    scope = namespaces_scope(("system",), "system", policies_readable=False)
    assert [one.namespace for one in scope.places] == ["system"]


def test_only_a_namespace_that_is_served_may_be_lost() -> None:
    assert [one.namespace for one in SCOPE.places if SCOPE.may_lose(one)] == ["team-a", "team-b"]
    assert not CLUSTER.may_lose(CLUSTER.places[0])


@dataclass
class FakeCluster:
    """Holds pools by namespace; a namespace that is not in it is forbidden."""

    pools: dict[str, list[dict[str, Any]]]
    asked: list[str] = field(default_factory=list)

    async def get(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.pools:
            raise Rejected(403, "Forbidden", f"namespaces {name!r} is forbidden")
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": {"t": name}}
        return {"metadata": meta}

    async def list_metadata(
        self, kind: ResourceKind, namespace: str | None
    ) -> AsyncIterator[Listed]:
        self.asked.append(kind.path(namespace))
        if namespace is not None and namespace not in {*self.pools, "system"}:
            raise Rejected(403, "Forbidden", f"{kind.plural} in {namespace!r} is forbidden")
        for one in self.pools.get(namespace or "", []) if kind is kinds.POOL else []:
            yield Listed(one["uid"], one["resourceVersion"])


def pool(name: str, namespace: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "5",
            "creationTimestamp": "2026-11-21T10:00:00Z"}  # fmt: skip
    source = {"type": "Module", "module": {"factory": "a.b:c"}}
    return {"metadata": meta, "spec": {"model": {"source": source}}}


@pytest.fixture
def cluster() -> FakeCluster:
    held = {one: [pool(f"chat-{one}", one)["metadata"]] for one in ("team-a", "team-b")}
    return FakeCluster(held)


def begun(cluster: FakeCluster) -> Resync:
    store = ObjectStore(own_namespace="system")
    for one in ("team-a", "team-b"):
        store.upsert(kinds.POOL, pool(f"chat-{one}", one))
    return Resync(cast("ApiClient", cluster), store, lambda _: None, SCOPE)


async def test_every_list_names_its_namespace(cluster: FakeCluster) -> None:
    resync = begun(cluster)
    await resync.round(100.0)
    assert resync.complete
    wide = [path for path in cluster.asked if "/namespaces/" not in path]
    assert wide == [kinds.POLICY.path()]
    assert resync.store.namespaces["team-a"].labels == {"t": "team-a"}


async def test_in_a_namespace_that_is_lost_nothing_is_done_and_elsewhere_all(
    cluster: FakeCluster,
) -> None:
    resync = begun(cluster)
    await resync.round(100.0)
    del cluster.pools["team-a"]
    await resync.round(100.0 + NAMESPACE_SECONDS)
    assert resync.store.partial == {"team-a"}
    assert resync.complete


async def test_a_namespace_that_comes_back_is_served_once_all_of_it_was_seen(
    cluster: FakeCluster,
) -> None:
    held = cluster.pools.pop("team-a")
    resync = begun(cluster)
    resync.store.remove(kinds.POOL, "uid-chat-team-a")
    await resync.round(100.0)
    assert resync.complete
    cluster.pools["team-a"] = held
    await resync.round(100.0 + NAMESPACE_SECONDS)
    assert resync.store.partial == {"team-a"}  # the watch has not shown its pool yet
    resync.store.upsert(kinds.POOL, pool("chat-team-a", "team-a"))
    await resync.round(100.0 + 2 * NAMESPACE_SECONDS)
    assert resync.store.partial == set()


async def test_what_must_be_read_ends_the_round_where_it_cannot(cluster: FakeCluster) -> None:
    resync = Resync(cast("ApiClient", cluster), ObjectStore(), lambda _: None, CLUSTER)
    cluster.list_metadata = _forbidden  # type: ignore[method-assign, assignment]
    with pytest.raises(Rejected):
        await resync.round(100.0)


async def _forbidden(*_: object) -> AsyncIterator[Listed]:
    raise Rejected(403, "Forbidden", "no")
    yield Listed("", "")


async def test_a_first_listing_is_compared_again_when_it_has_come_to_rest(
    cluster: FakeCluster,
) -> None:
    resync = Resync(cast("ApiClient", cluster), ObjectStore(), lambda _: None, SCOPE)
    await resync.round(100.0)
    assert not resync.complete
    cluster.asked.clear()
    for turn, one in enumerate(("team-a", "team-b")):
        resync.store.upsert(kinds.POOL, pool(f"chat-{one}", one))
        await resync.round(100.5 + turn)
        assert not [path for path in cluster.asked if one in path]
    await resync.round(102.5)
    assert resync.complete


@dataclass
class Held:
    """Stands for one Lease that is, or is not, held."""

    so: bool
    transitions: int = 0

    def valid(self, _: float | None = None) -> bool:
        return self.so


def leases(own: bool, **within: bool) -> Leases:
    held = {name.replace("_", "-"): cast("Leadership", Held(so, 3)) for name, so in within.items()}
    return Leases(cast("Leadership", Held(own, 7)), held)


def test_a_namespaces_lease_counts_only_beside_the_installations_own() -> None:
    assert leases(own=True, team_a=True).valid_in("team-a")
    assert not leases(own=True, team_a=False).valid_in("team-a")
    assert not leases(own=False, team_a=True).valid_in("team-a")


def test_in_scope_cluster_the_own_lease_counts_everywhere() -> None:
    held = leases(own=True)
    assert held.valid_in("anywhere")
    assert held.valid_in(None)
    assert held.transitions_in("anywhere") == 7
    assert leases(own=True, team_a=True).transitions_in("team-a") == 3


def sent(path: str, leading: Callable[[str | None], bool]) -> None:
    class Sends:
        async def send(self, request: ApiRequest, permit: Callable[[], None]) -> dict[str, Any]:
            permit()
            return {}

    writer = Writer(cast("ApiClient", Sends()), WriteBudget(TokenBucket(), lambda: 0.0), leading)
    asyncio.run(writer.write(kinds.POOL, "status", ApiRequest("PATCH", path), Urgency.CONDITION))


def test_a_write_asks_for_the_lease_of_the_namespace_that_it_goes_to() -> None:
    held = leases(own=True, team_a=True, team_b=False)
    sent(kinds.POOL.path("team-a", "chat") + "/status", held.valid_in)
    with pytest.raises(NotLeading):
        sent(kinds.POOL.path("team-b", "chat") + "/status", held.valid_in)
    sent(kinds.CONFIG_MAP.path("system", "record"), held.valid_in)
    sent(kinds.POLICY.path(None, "prod") + "/status", held.valid_in)
