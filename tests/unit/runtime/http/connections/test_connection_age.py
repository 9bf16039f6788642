"""Client connections age, so that new replicas are found."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock_api import names
from penstock_runtime.http.connection_age import AgingConnections, requests_of_connection
from penstock_runtime.serving.pod import Pod


class Wire(asyncio.Transport):
    """A connection, as far as ageing knows one."""


def test_a_connection_is_closed_at_its_age_plus_or_minus_half() -> None:
    for drawn, age in ((0.0, 10.0), (0.5, 20.0), (1.0, 30.0)):
        connections, wire = AgingConnections(20.0, lambda: 1000, iter([drawn]).__next__), Wire()
        assert not connections.count_request(wire, 100.0)
        assert not connections.count_request(wire, 100.0 + age - 0.1)
        assert connections.count_request(wire, 100.0 + age)


def test_a_connection_is_closed_at_its_last_request() -> None:
    connections, wire, other = AgingConnections(20.0, lambda: 3), Wire(), Wire()
    assert [connections.count_request(wire, 1.0) for _ in range(3)] == [False, False, True]
    assert not connections.count_request(other, 1.0)


def test_connections_that_are_gone_are_forgotten() -> None:
    connections, wire = AgingConnections(20.0, lambda: 3), Wire()
    connections.count_request(wire, 1.0)
    assert len(connections) == 1
    del wire
    assert len(connections) == 0


@pytest.mark.parametrize(
    ("seconds", "requests"), [(0.0, 1000), (2e-5, 1000), (1e-3, 50), (0.0136, 10), (60.0, 10)]
)
def test_a_new_connection_costs_at_most_two_percent_of_the_requests_of_the_last(
    seconds: float, requests: int
) -> None:
    assert requests_of_connection(seconds) == requests


async def test_the_last_answer_of_a_connection_says_so(
    start: Any, call: Callable[..., dict[str, Any]]
) -> None:
    pod = await start(connection_requests=3)
    said = []
    for _ in range(6):
        async with await pod.infer(call()) as reply:
            said.append(reply.headers.get("Connection"))
    assert said == [None, None, "close", None, None, "close"]


async def test_a_connection_to_a_slow_model_ends_after_ten_requests(
    start: Any, call: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await start()
    monkeypatch.setattr(Pod, "busy_seconds", lambda pod: 0.1 * pod.counters.settled())
    closed = []
    for number in range(25):
        # the model's time is unknown when the first connection opens
        headers = {} if number else {"Connection": "close"}
        async with await running.infer(call(), headers=headers) as reply:
            if number and reply.headers.get("Connection") == "close":
                closed.append(number)
    assert running.pod.request_seconds() == pytest.approx(0.1)
    assert closed == [10, 20]


@pytest.mark.parametrize("fast_path", [True, False])
async def test_the_connections_of_a_gateway_do_not_age(
    start: Any, call: Callable[..., dict[str, Any]], *, fast_path: bool
) -> None:
    pod = await start(connection_requests=3, fast_path=fast_path)
    for _ in range(6):
        async with await pod.infer(call(), headers={names.HEADER_GATEWAY: "1"}) as reply:
            assert reply.headers.get("Connection") is None
