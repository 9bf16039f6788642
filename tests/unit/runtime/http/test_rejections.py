"""A full queue: rejection without reading the body, the same on both paths, and throttling of clients that retry too often."""

import asyncio
import time
import weakref
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web

from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_runtime.engine.service_time import ServiceTime
from penstock_runtime.errors import RequestRejected
from penstock_runtime.http import client_throttle
from penstock_runtime.http.client_throttle import (
    TICK_SECONDS,
    UNTHROTTLED_RATE,
    ClientThrottle,
    TimerWheel,
)
from penstock_runtime.http.fast_path.canned_rejections import CannedRejections
from penstock_runtime.http.fast_path.request_head import hinted_class
from penstock_runtime.http.fast_path.response import ResponseWriter
from penstock_runtime.protocols.common.replies import Reply, of_rejection
from penstock_runtime.protocols.open_inference import routes
from penstock_runtime.protocols.open_inference.routes import OpenInference
from penstock_runtime.serving.limits import LiveLimits
from tests.unit.runtime.conftest import LIMITS
from tests.unit.runtime.http.fast_path.test_fast_path import VARYING, connected, one_answer
from tests.unit.runtime.http.wire_cases import GOOD, body, post
from tests.unit.runtime.serving.admission.test_base import AdmissionHarness

FULL = LIMITS.model_copy(update={"max_queue_depth": 1})


async def filled(
    start: Any, until: Any, limits: LimitsUpdate = FULL, **more: Any
) -> tuple[Any, list[Any]]:
    """Return a pod whose queue is full unless `limits` are wider, and the clients that run and wait in it."""
    pod = await start(limits, **more)
    pod.model.gate.clear()
    clients = []
    for waiting in (0, 1):
        clients.append(await connected(pod))
        clients[-1][1].write(GOOD)
        await until(lambda: pod.pod.admission.load().running == 1)
        await until(lambda: pod.pod.admission.load().waiting == waiting)  # noqa: B023
    return pod, clients


async def dismissed(pod: Any, clients: list[Any]) -> None:
    pod.model.gate.set()
    for reader, writer in clients:
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_both_paths_reject_with_the_same_bytes_whatever_the_body(
    start: Any, until: Any
) -> None:
    said = []
    for fast in (True, False):
        pod, clients = await filled(start, until, fast_path=fast)
        reader, writer = await connected(pod)
        for sent in (GOOD, post(b"no JSON at all")):
            writer.write(sent)
            said.append(VARYING.sub(b"~", await one_answer(reader)))
        assert pod.pod.counters.rejected == {"QueueFull": 2}
        writer.close()
        await dismissed(pod, clients)
        assert pod.pod.counters.settled() == pod.pod.counters.received == 4
    assert len(set(said)) == 1
    assert said[0].startswith(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one rejection a second throttles."""
    monkeypatch.setattr(client_throttle, "UNTHROTTLED_RATE", 1.0)
    monkeypatch.setattr(client_throttle, "MIN_PAUSE_SECONDS", 0.3)
    monkeypatch.setattr(client_throttle, "WINDOW_SECONDS", 1e-6)


async def refused_three_times(pod: Any, sent: bytes, reason: str) -> None:
    """Send a request three times together; the connection must have been throttled between its rejections."""
    reader, writer = await connected(pod)
    began = time.monotonic()
    for _ in range(3):
        writer.write(sent)
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 429")
    assert time.monotonic() - began >= client_throttle.MAX_PAUSE_SECONDS / 2  # drawn, +- half
    assert pod.pod.counters.rejected == {reason: 3}
    writer.close()


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    "more", [{}, {"fast_path": False}, {"trusted_proxies": (ip_network("10.0.0.0/8"),)}]
)
async def test_a_client_with_too_many_rejections_is_throttled(
    start: Any, until: Any, more: dict[str, Any]
) -> None:
    pod, clients = await filled(start, until, **more)
    await refused_three_times(pod, GOOD, "QueueFull")
    await dismissed(pod, clients)


@pytest.mark.parametrize(
    ("urgent", "more"),
    [
        (post(body(parameters={"priority": 1})), {}),
        (post(body(parameters={"priority": 1})), {"fast_path": False}),
        (
            post(body(), "X-Penstock-Priority: 1"),
            {"trusted_proxies": (ip_network("127.0.0.0/8"),)},
        ),
    ],
)
async def test_in_a_full_queue_an_urgent_request_is_served_and_one_of_the_lowest_class_rejected(
    start: Any, until: Any, urgent: bytes, more: dict[str, Any]
) -> None:
    by_priority = FULL.model_copy(update={"discipline": Discipline.PRIORITY})
    pod, (running, waiting) = await filled(start, until, by_priority, **more)
    reader, writer = await connected(pod)
    writer.write(urgent)
    assert (await one_answer(waiting[0])).startswith(b"HTTP/1.1 429")
    assert pod.client._throttle._count == 1
    waiting[1].close()
    await dismissed(pod, [running, (reader, writer)])
    assert pod.pod.counters.rejected == {"QueueFull": 1}
    assert pod.pod.counters.settled() == pod.pod.counters.received == 3


async def test_requests_of_the_lowest_class_that_are_being_parsed_keep_no_urgent_one_from_a_full_queue(
    start: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, sizes = asyncio.Event(), list[int]()

    async def held_if_first(size: int, hold: Any, work: Any, *given: Any) -> Any:
        sizes.append(size)
        if len(sizes) == 1:
            await parsed.wait()
        return work(*given)

    by_priority = FULL.model_copy(update={"discipline": Discipline.PRIORITY})
    pod, (running, waiting) = await filled(start, until, by_priority, fast_path=False)
    monkeypatch.setattr(routes, "to_thread_if_large", held_if_first)
    low, urgent = await connected(pod), await connected(pod)
    low[1].write(GOOD)
    await until(lambda: len(sizes) == 1)
    urgent[1].write(post(body(parameters={"priority": 1})))
    assert (await one_answer(waiting[0])).startswith(b"HTTP/1.1 429")
    parsed.set()
    assert (await one_answer(low[0])).startswith(b"HTTP/1.1 429")
    waiting[1].close()
    low[1].close()
    await dismissed(pod, [running, urgent])


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_displaced_request_on_the_path_of_aiohttp(
    start: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, submit = list[weakref.ref[web.Request]](), OpenInference._submit

    def watched(served: OpenInference, request: web.Request, *more: Any) -> Any:
        kept.append(weakref.ref(request))
        return submit(served, request, *more)

    monkeypatch.setattr(OpenInference, "_submit", watched)
    by_priority = FULL.model_copy(update={"discipline": Discipline.PRIORITY})
    pod, (running, waiting) = await filled(
        start, until, by_priority, trusted_proxies=(ip_network("127.0.0.0/8"),)
    )
    urgent = await connected(pod)
    urgent[1].write(post(body(), "X-Penstock-Priority: 1"))
    assert (await one_answer(waiting[0])).startswith(b"HTTP/1.1 429")
    waiting[1].close()
    await until(lambda: kept[1]() is None, 5.0)
    await dismissed(pod, [running, urgent])


@pytest.mark.usefixtures("strict")
async def test_a_client_that_finds_the_memory_full_is_throttled(start: Any) -> None:
    pod = await start()
    pod.pod.admission.memory.hold_unread(512 * 2**20)
    await refused_three_times(pod, GOOD, "MemoryFull")


@pytest.mark.usefixtures("strict")
async def test_a_deadline_out_of_reach_is_rejected_by_the_head_and_its_client_throttled(
    start: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy = LIMITS.model_copy(update={"max_batch_size": 1})
    pod, clients = await filled(start, until, roomy)
    monkeypatch.setattr(LiveLimits, "service_time", ServiceTime(100.0, 0.0))
    hasty = post(b"no JSON at all", "X-Request-Timeout-Ms: 1500")
    await refused_three_times(pod, hasty, "DeadlineUnreachable")
    await dismissed(pod, clients)


def test_a_body_hints_at_its_class_where_it_spells_it_plainly() -> None:
    assert hinted_class(b'{"inputs": [], "parameters": {"priority" : 3}}', None) == 3
    assert hinted_class(b'{"priority":0}', None) == 10
    assert hinted_class(b'{"priority": "1"}', None) == 10
    assert hinted_class(b"{}" + b'"priority": 1', "2") == 10, "data follow the JSON"
    assert hinted_class(b"", None) == 10


async def test_a_throttled_client_is_served_when_there_is_room(
    start: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClientThrottle, "pause_seconds", lambda *_: 0.2)
    pod, clients = await filled(start, until)
    reader, writer = await connected(pod)
    writer.write(GOOD)
    assert (await one_answer(reader)).startswith(b"HTTP/1.1 429")
    await dismissed(pod, clients)
    writer.write(GOOD)
    assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    writer.write(GOOD)
    assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    writer.close()
    await asyncio.sleep(0)


def throttle_at(refused_a_second: float, drawn: float = 0.5) -> ClientThrottle:
    """Return the rests of a pod that rejected so often each second for a while."""
    throttle = ClientThrottle(lambda: 0.0, draw=lambda: drawn)
    for number in range(int(refused_a_second)):
        throttle.record_rejection(100.0 + number / refused_a_second)
    return throttle


def test_the_pause_grows_with_the_rejection_rate() -> None:
    assert throttle_at(UNTHROTTLED_RATE / 2).pause_seconds() == 0.0
    some, many = (throttle_at(UNTHROTTLED_RATE * factor).pause_seconds() for factor in (3, 9))
    assert 0.0 < some < many <= client_throttle.MAX_PAUSE_SECONDS


def test_a_rejection_after_a_calm_period_counts_as_the_first() -> None:
    throttle = throttle_at(5 * UNTHROTTLED_RATE)
    assert throttle.pause_seconds() > 0.0
    throttle.record_rejection(700.0)
    assert throttle.pause_seconds() == 0.0


def test_a_pause_counts_as_time_without_rejections() -> None:
    throttle, unbroken = throttle_at(3 * UNTHROTTLED_RATE), throttle_at(3 * UNTHROTTLED_RATE)
    throttle.record_rejection(101.3)
    assert throttle.pause_seconds() < unbroken.pause_seconds() / 2


@pytest.mark.parametrize("patience", [0.1, 0.5, 1.0, 1.8, 60.0])
def test_no_pause_exceeds_half_of_the_timeout_and_pauses_differ(patience: float) -> None:
    shortest, longest = (
        throttle_at(9 * UNTHROTTLED_RATE, drawn).pause_seconds(patience) for drawn in (0.0, 1.0)
    )
    assert longest == pytest.approx(
        min(
            client_throttle.MAX_TIMEOUT_SHARE * patience,
            (1 + client_throttle.JITTER) * client_throttle.MAX_PAUSE_SECONDS,
        )
    )
    assert longest / 3 - 1e-9 <= shortest <= 0.75 * longest


class Words:
    """Open Inference's, counted."""

    def __init__(self) -> None:
        self.asked = 0

    def of_rejection(self, rejection: RequestRejected) -> Reply:
        self.asked += 1
        return of_rejection(rejection)


def test_a_rejection_is_rendered_once_for_many_requests() -> None:
    rejections, words = (
        CannedRejections(AdmissionHarness(depth=1).desk, ResponseWriter("pod-0")),
        Words(),
    )
    first = rejections.full(1.0)
    assert rejections.full(1.05) is first
    for name in ("abc", "def"):
        assert b"X-Request-Id: %b\r\n" % name.encode() in rejections.answer(first, name, words)
    assert words.asked == 1
    assert rejections.full(1.2) is not first
    rejections.answer(rejections.full(1.2), "abc", words)
    assert words.asked == 2


def test_pauses_that_end_together_share_a_timer() -> None:
    timers: list[tuple[float, Any, int]] = []
    woken: list[str] = []
    alarm = TimerWheel(lambda *timer: timers.append(timer), lambda: 10.0)
    for name, seconds in (("a", 0.021), ("b", 0.0215), ("c", 0.3)):
        alarm.set(seconds, Sleeper(name, woken))
    (soon, _, _), (late, _, _) = timers
    assert 0 < soon <= TICK_SECONDS + 1e-9
    assert 0.3 - TICK_SECONDS <= late <= 0.3 + 1e-9
    for _, ring, tick in timers:
        ring(tick)
    assert woken == ["a", "b", "c"]


class Sleeper:
    def __init__(self, name: str, woken: list[str]) -> None:
        self._name = name
        self._woken = woken

    def resume(self) -> None:
        self._woken.append(self._name)
