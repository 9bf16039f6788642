"""Arrival times: a deadline counts from when a request arrived, also where it was read late."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock_runtime.http.client_throttle import MAX_TIMEOUT_SHARE, UNTHROTTLED_RATE
from penstock_runtime.http.fast_path.arrival_time import STALL_SECONDS, TICK_SECONDS, ArrivalClock
from penstock_runtime.protocols.common.socket_age import seconds_in_socket
from penstock_runtime.serving.batch.wait_estimate import patience_to_start
from tests.unit.runtime.http.fast_path.test_fast_path import connected, one_answer
from tests.unit.runtime.http.test_rejections import throttle_at
from tests.unit.runtime.http.wire_cases import body, post
from tests.unit.runtime.serving.admission.test_base import AdmissionHarness


class Clock:
    """The time and timers of a loop, moved by a test; the bytes of every socket are 0.4 s old."""

    def __init__(self) -> None:
        self.time = 50.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((self.time + seconds, call))

    def age(self, _transport: object) -> float:
        return 0.4

    def turn(self, seconds: float = 0.0) -> None:
        """Advance the time and run the timers that are due."""
        self.time += seconds
        due = [call for at, call in self._timers if at <= self.time]
        self._timers = [timer for timer in self._timers if timer[0] > self.time]
        for call in due:
            call()

    @property
    def timers(self) -> int:
        return len(self._timers)


def test_arrival_times_need_no_system_call_while_the_loop_turns() -> None:
    clock = Clock()
    fresh = ArrivalClock(clock.call_later, lambda: clock.time, clock.age)
    assert not fresh.is_current(clock.time), "nothing is known yet"
    assert fresh.arrival_of(None, clock.time) == pytest.approx(clock.time - 0.4)
    clock.turn()
    for _ in range(100):
        assert fresh.is_current(clock.time)
        clock.turn(TICK_SECONDS)


def test_after_a_stall_arrival_times_come_from_the_kernel() -> None:
    clock = Clock()
    fresh = ArrivalClock(clock.call_later, lambda: clock.time, clock.age)
    fresh.arrival_of(None, clock.time)
    clock.turn()
    clock.time += STALL_SECONDS + 0.001  # reading comes before timers
    for _ in range(3):
        assert not fresh.is_current(clock.time)
    clock.turn()
    assert fresh.is_current(clock.time)


def test_the_timer_stops_without_requests() -> None:
    clock = Clock()
    fresh = ArrivalClock(clock.call_later, lambda: clock.time, clock.age)
    fresh.arrival_of(None, clock.time)
    for _ in range(3):
        clock.turn(TICK_SECONDS)
    assert clock.timers == 0
    assert not fresh.is_current(clock.time)


async def test_the_kernel_reports_the_age_of_bytes_in_a_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        _, writer = await asyncio.open_connection(*listening.getsockname())
        theirs, _ = listening.accept()
        theirs.sendall(b"x")
        assert seconds_in_socket(writer.transport) < 5.0
        theirs.close()
    writer.close()
    await writer.wait_closed()
    assert seconds_in_socket(None) == 0.0
    pipe_end, other = socket.socketpair()
    _, pipe = await asyncio.open_connection(sock=pipe_end)
    assert seconds_in_socket(pipe.transport) == 0.0, "a Unix socket knows nothing of TCP"
    other.close()
    pipe.close()
    await pipe.wait_closed()


async def test_a_request_read_after_its_deadline_is_rejected_and_costs_no_batch(
    start: Any,
) -> None:
    for fast in (True, False):
        pod = await start(fast_path=fast)
        reader, writer = await connected(pod)
        writer.write(post(body(), "X-Request-Timeout-Ms: 60000"))
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
        batches = len(pod.model.batches)
        writer.write(post(body(), "X-Request-Timeout-Ms: 100"))
        await writer.drain()
        time.sleep(0.3)  # noqa: ASYNC251 - the loop stands still, and the pod's is this one
        answer = await one_answer(reader)
        assert answer.split()[1] in (b"429", b"504"), answer
        assert len(pod.model.batches) == batches
        writer.close()


def test_a_pause_leaves_most_of_a_clients_timeout() -> None:
    many = throttle_at(UNTHROTTLED_RATE * 9, drawn=1.0)
    assert many.pause_seconds(0.1) == pytest.approx(MAX_TIMEOUT_SHARE * 0.1)
    assert many.pause_seconds(1e9) == many.pause_seconds()


def test_an_answer_in_time_needs_a_start_before_its_deadline() -> None:
    harness = AdmissionHarness()
    assert harness.desk.wait.seconds_to_start(None) is None
    assert harness.desk.wait.seconds_to_start(1.0) == 1.0, "nothing is known yet"
    harness.report(batch_seconds=0.2)
    starts_within = harness.desk.wait.seconds_to_start(1.0)
    assert starts_within is not None
    assert 1.0 - 0.2 * 1.125 <= starts_within <= 1.0 - 0.2
    harness.report(batch_seconds=30.0)
    assert harness.desk.wait.seconds_to_start(1.0) == 0.5, "a prediction never refuses all"


def test_deadlines_of_one_patience_stay_in_order_however_many_share_a_batch() -> None:
    starts = {patience_to_start(1.0, 1e-4 + rows * 2e-6) for rows in range(1, 65)}
    assert len(starts) == 1
    assert 1.0 - 0.0157 < starts.pop() < 1.0
