"""Resync in scope Namespaces: lists by namespace, unreadable namespaces, and completeness of the store."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from penstock_operator.errors import Rejected
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient, Listed
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.kube.scope import CLUSTER, namespaces_scope
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import INTERVAL_SECONDS, NAMESPACE_SECONDS, Resync

SCOPE = namespaces_scope(("team-a", "team-b"), "system", policies_readable=True)


@dataclass
class FakeCluster:
    """Fake API server with pools by namespace; every other namespace is forbidden."""

    pools: dict[str, list[dict[str, Any]]]
    requests: list[str] = field(default_factory=list)

    async def get(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.pools:
            raise Rejected(403, "Forbidden", f"namespaces {name!r} is forbidden")
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": {"t": name}}
        return {"metadata": meta}

    async def list_metadata(
        self, kind: ResourceKind, namespace: str | None
    ) -> AsyncIterator[Listed]:
        self.requests.append(kind.path(namespace))
        if namespace is not None and namespace not in {*self.pools, "system"}:
            raise Rejected(403, "Forbidden", f"{kind.plural} in {namespace!r} is forbidden")
        for meta in self.pools.get(namespace or "", []) if kind is kinds.POOL else []:
            yield Listed(meta["uid"], meta["resourceVersion"])


def pool(name: str, namespace: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "5",
            "creationTimestamp": "2026-11-21T10:00:00Z"}  # fmt: skip
    source = {"type": "Module", "module": {"factory": "a.b:c"}}
    return {"metadata": meta, "spec": {"model": {"source": source}}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(
        {name: [pool(f"chat-{name}", name)["metadata"]] for name in ("team-a", "team-b")}
    )


def started(cluster: FakeCluster) -> Resync:
    store = ObjectStore(own_namespace="system")
    for name in ("team-a", "team-b"):
        store.upsert(kinds.POOL, pool(f"chat-{name}", name))
    return Resync(cast("ApiClient", cluster), store, lambda _: None, SCOPE)


async def test_every_list_names_its_namespace(cluster: FakeCluster) -> None:
    resync = started(cluster)
    await resync.round(100.0)
    assert resync.complete
    unscoped = [path for path in cluster.requests if "/namespaces/" not in path]
    assert unscoped == [kinds.POLICY.path()]
    assert resync.store.namespaces["team-a"].labels == {"t": "team-a"}


async def test_an_unreadable_namespace_is_partial_and_the_others_stay_complete(
    cluster: FakeCluster,
) -> None:
    resync = started(cluster)
    await resync.round(100.0)
    del cluster.pools["team-a"]
    await resync.round(100.0 + NAMESPACE_SECONDS)
    assert resync.store.partial == {"team-a"}
    assert resync.complete


async def test_a_namespace_that_is_readable_again_is_served_once_all_of_it_was_read(
    cluster: FakeCluster,
) -> None:
    removed = cluster.pools.pop("team-a")
    resync = started(cluster)
    resync.store.remove(kinds.POOL, "uid-chat-team-a")
    await resync.round(100.0)
    assert resync.complete
    cluster.pools["team-a"] = removed
    await resync.round(100.0 + NAMESPACE_SECONDS)
    assert resync.store.partial == {"team-a"}  # its pool has not arrived by watch yet
    resync.store.upsert(kinds.POOL, pool("chat-team-a", "team-a"))
    await resync.round(100.0 + 2 * NAMESPACE_SECONDS)
    assert resync.store.partial == set()


async def test_a_forbidden_list_in_scope_cluster_ends_the_round(cluster: FakeCluster) -> None:
    resync = Resync(cast("ApiClient", cluster), ObjectStore(), lambda _: None, CLUSTER)
    cluster.list_metadata = _forbidden  # type: ignore[method-assign, assignment]
    with pytest.raises(Rejected):
        await resync.round(100.0)


async def test_a_kind_that_may_no_longer_be_listed_delays_no_other_and_is_retried_later() -> None:
    resync = Resync(cast("ApiClient", FakeCluster({})), ObjectStore(), lambda _: None, CLUSTER)
    await resync.round(100.0)
    cluster, kinds_of = WithoutSecond({}), CLUSTER.watches[0].kinds
    resync.cluster = cast("ApiClient", cluster)
    later = 100.0 + INTERVAL_SECONDS
    with pytest.raises(Rejected):
        await resync.round(later)
    for seconds in (0.5, 1.0, NAMESPACE_SECONDS - 0.5):
        await resync.round(later + seconds)
    assert cluster.requests == [kind.path() for kind in kinds_of]
    with pytest.raises(Rejected):
        await resync.round(later + NAMESPACE_SECONDS)
    assert cluster.requests[len(kinds_of) :] == [kinds_of[1].path()]


class WithoutSecond(FakeCluster):
    """A cluster in which the second kind of those that are watched may not be listed."""

    async def list_metadata(
        self, kind: ResourceKind, namespace: str | None
    ) -> AsyncIterator[Listed]:
        async for item in super().list_metadata(kind, namespace):
            yield item
        if kind is CLUSTER.watches[0].kinds[1]:
            raise Rejected(403, "Forbidden", "no")


async def _forbidden(*_: object) -> AsyncIterator[Listed]:
    raise Rejected(403, "Forbidden", "no")
    yield Listed("", "")


async def test_a_first_listing_is_compared_again_when_no_more_objects_arrive(
    cluster: FakeCluster,
) -> None:
    resync = Resync(cast("ApiClient", cluster), ObjectStore(), lambda _: None, SCOPE)
    await resync.round(100.0)
    assert not resync.complete
    cluster.requests.clear()
    for turn, name in enumerate(("team-a", "team-b")):
        resync.store.upsert(kinds.POOL, pool(f"chat-{name}", name))
        await resync.round(100.5 + turn)
        assert not [path for path in cluster.requests if name in path]
    await resync.round(102.5)
    assert resync.complete
