"""Client connections age, so that new replicas are found."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock_api import names
from penstock_runtime.http.connection_age import AgingConnections


class Wire(asyncio.Transport):
    """A connection, as far as ageing knows one."""


def test_a_connection_is_closed_at_its_age_plus_or_minus_half() -> None:
    for drawn, age in ((0.0, 10.0), (0.5, 20.0), (1.0, 30.0)):
        connections, wire = AgingConnections(20.0, 1000, iter([drawn]).__next__), Wire()
        assert not connections.count_request(wire, 100.0)
        assert not connections.count_request(wire, 100.0 + age - 0.1)
        assert connections.count_request(wire, 100.0 + age)


def test_a_connection_is_closed_at_its_last_request() -> None:
    connections, wire, other = AgingConnections(20.0, 3), Wire(), Wire()
    assert [connections.count_request(wire, 1.0) for _ in range(3)] == [False, False, True]
    assert not connections.count_request(other, 1.0)


def test_connections_that_are_gone_are_forgotten() -> None:
    connections, wire = AgingConnections(20.0, 3), Wire()
    connections.count_request(wire, 1.0)
    assert len(connections) == 1
    del wire
    assert len(connections) == 0


async def test_the_last_answer_of_a_connection_says_so(
    start: Any, call: Callable[..., dict[str, Any]]
) -> None:
    pod = await start(connection_requests=3)
    said = []
    for _ in range(6):
        async with await pod.infer(call()) as reply:
            said.append(reply.headers.get("Connection"))
    assert said == [None, None, "close", None, None, "close"]


@pytest.mark.parametrize("fast_path", [True, False])
async def test_the_connections_of_a_gateway_do_not_age(
    start: Any, call: Callable[..., dict[str, Any]], *, fast_path: bool
) -> None:
    pod = await start(connection_requests=3, fast_path=fast_path)
    for _ in range(6):
        async with await pod.infer(call(), headers={names.HEADER_GATEWAY: "1"}) as reply:
            assert reply.headers.get("Connection") is None
