"""The cluster of a pool outlives its listener, for the requests on connections that are still open."""

from penstock_gateway.gateway import leaving
from penstock_gateway.resources.pools import Kind, configuration
from penstock_gateway.snapshot import Snapshot
from tests.unit.gateway.values import SETTINGS, made_of, route


def test_a_pool_that_is_no_longer_routed_drains_for_a_while_from_then_on() -> None:
    first = leaving({}, {"a", "b"}, {"b"}, now=10.0, drain_seconds=60.0)
    assert first == {"a": 70.0}
    assert leaving(first, {"b"}, {"b"}, now=69.0, drain_seconds=60.0) == {"a": 70.0}
    assert leaving(first, {"b"}, {"b"}, now=70.0, drain_seconds=60.0) == {}


def test_a_pool_that_returns_drains_no_more() -> None:
    assert leaving({"a": 70.0}, {"b"}, {"a", "b"}, now=20.0, drain_seconds=60.0) == {}


def test_a_pool_that_is_kept_drains_once_its_service_is_gone() -> None:
    former = Snapshot({"a": route("a")}).served
    kept = Snapshot(kept={"a": route("a", 0)}).served
    assert leaving({}, former, kept, now=10.0, drain_seconds=60.0) == {}
    assert leaving({}, kept, Snapshot().served, now=10.0, drain_seconds=60.0) == {"a": 70.0}


def test_a_draining_pool_keeps_its_endpoints_and_has_no_listener() -> None:
    before = made_of(route("a"), route("b", 10002))
    drained = Snapshot({"b": route("b", 10002)}, {"a": route("a", 0)})
    after = configuration(drained, SETTINGS, before)
    assert (set(after.pools), set(after.delivered)) == ({"b"}, {"a", "b"})
    assert after.find(Kind.LISTENER, "a") is None
    assert after.find(Kind.ENDPOINTS, "a") == before.find(Kind.ENDPOINTS, "a")
