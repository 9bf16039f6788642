"""The steps of a pool into its namespace's gateway and out of it, and the ports of its listeners."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api import names
from penstock_operator.decide.route import (
    DIRECT,
    LEAVING_SECONDS,
    PoolRoute,
    RouteStep,
    allocate,
    live_route,
    next_route,
)
from penstock_operator.observed import ChildObject, RoutedPool
from tests.unit.operator.decide.world import child

NOW = 1000.0
OPENING = PoolRoute(RouteStep.OPENING, 20_000)
ROUTED = PoolRoute(RouteStep.ROUTED, 20_000)
LEAVING = PoolRoute(RouteStep.LEAVING, 20_000, int(NOW))
FIRST, LAST = names.GATEWAY_PORTS


def service(route: PoolRoute, **edited: Any) -> ChildObject:
    """Return a live Service on `route`, as the manifest's builder writes it."""
    selected = (
        {names.LABEL_GATEWAY: names.GATEWAY_NAME}
        if route.step is RouteStep.ROUTED
        else {names.LABEL_POOL_UID: "uid-chat"}
    )
    metadata = {"name": "chat", "annotations": {**route.annotations, **edited}}
    return child("Service", "chat", {"metadata": metadata, "spec": {"selector": selected}})


def routed(uid: str, port: int | None = None, *, wanted: bool = True, created: float = 0) -> Any:
    return RoutedPool(uid, "team-a", uid, created, wanted, port)


@pytest.mark.parametrize("route", [DIRECT, OPENING, ROUTED, LEAVING])
def test_each_step_is_read_back_from_the_service(route: PoolRoute) -> None:
    assert live_route(service(route)) == route


def test_a_pool_without_a_service_and_an_annotation_that_is_no_number_are_direct() -> None:
    assert live_route(None) == DIRECT
    assert live_route(service(OPENING, **{names.ANNOTATION_GATEWAY_PORT: "²"})) == DIRECT


def test_the_service_selects_the_gateway_only_after_the_listener_was_announced() -> None:
    assert next_route(DIRECT, 20_000, listening=True, now=NOW) == OPENING
    assert next_route(OPENING, 20_000, listening=False, now=NOW) == OPENING
    assert next_route(OPENING, 20_000, listening=True, now=NOW) == ROUTED


def test_a_gateway_that_stops_listening_does_not_move_a_routed_pool() -> None:
    assert next_route(ROUTED, 20_000, listening=False, now=NOW) == ROUTED


def test_a_pool_with_a_new_port_goes_through_opening_again() -> None:
    assert next_route(ROUTED, 20_001, listening=True, now=NOW) == PoolRoute(
        RouteStep.OPENING, 20_001
    )


def test_the_listener_outlives_the_service_that_leaves() -> None:
    assert next_route(ROUTED, None, listening=True, now=NOW) == LEAVING
    assert next_route(LEAVING, None, listening=True, now=NOW + LEAVING_SECONDS - 1) == LEAVING
    assert next_route(LEAVING, None, listening=True, now=NOW + LEAVING_SECONDS) == DIRECT
    assert next_route(OPENING, None, listening=True, now=NOW) == DIRECT


def test_a_pool_that_returns_while_it_leaves_is_routed_at_once() -> None:
    assert next_route(LEAVING, 20_000, listening=True, now=NOW) == ROUTED


def test_a_pool_keeps_its_port_and_a_new_one_gets_the_smallest_free() -> None:
    pools = [routed("b", FIRST + 1), routed("c"), routed("a", created=5)]
    assert allocate(pools) == {"b": FIRST + 1, "c": FIRST, "a": FIRST + 2}


def test_of_two_pools_with_one_port_the_older_keeps_it() -> None:
    pools = [routed("young", FIRST, created=2), routed("old", FIRST, created=1)]
    assert allocate(pools) == {"old": FIRST, "young": FIRST + 1}


def test_a_port_outside_the_range_is_replaced() -> None:
    assert allocate([routed("a", 22)]) == {"a": FIRST}


def test_a_pool_that_leaves_keeps_its_port_from_others() -> None:
    assert allocate([routed("leaving", FIRST, wanted=False), routed("new")]) == {"new": FIRST + 1}


def test_the_newest_pools_have_no_port_once_all_are_taken() -> None:
    count = LAST - FIRST + 1
    pools = [routed(f"{n:05}", created=n) for n in range(count + 1)]
    ports = allocate(pools)
    assert len(ports) == len(set(ports.values())) == count
    assert f"{count:05}" not in ports


ROUTED_POOLS = st.builds(
    RoutedPool,
    uid=st.sampled_from("abcdef"),
    namespace=st.just("team-a"),
    name=st.just("x"),
    created=st.floats(0, 10),
    wanted=st.booleans(),
    port=st.none() | st.integers(FIRST - 2, FIRST + 8) | st.integers(0, 65535),
)


@given(st.lists(ROUTED_POOLS, unique_by=lambda pool: pool.uid))
def test_every_wanted_pool_has_a_port_of_its_own_and_keeps_it(pools: list[RoutedPool]) -> None:
    ports = allocate(pools)
    assert ports.keys() == {pool.uid for pool in pools if pool.wanted}
    assert len(set(ports.values())) == len(ports)
    assert all(FIRST <= port <= LAST for port in ports.values())
    settled = [replace(pool, port=ports.get(pool.uid, pool.port)) for pool in pools if pool.wanted]
    assert allocate(settled) == ports


def test_a_pool_leaves_the_gateway_in_time_although_the_clock_was_set_back() -> None:
    earlier = next_route(LEAVING, None, listening=True, now=NOW - 900)
    assert earlier == replace(LEAVING, left_at=int(NOW - 900))
    after = NOW - 900 + LEAVING_SECONDS
    assert next_route(earlier, None, listening=True, now=after) == DIRECT
