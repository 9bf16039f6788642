"""SIGTERM's drain: accept a while, then reject politely, serve what waits, and never reset anybody."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock_runtime.drain import (
    IDLE_SECONDS,
    LOOK_SECONDS,
    PROBE_SECONDS,
    QUIET_SECONDS,
    await_probe,
    drain,
)
from penstock_runtime.serving.health import Stage

Call = Callable[..., dict[str, Any]]


async def test_a_stopping_pod_accepts_first_then_rejects_and_serves_waiting_requests(
    start: Any, call: Call, until: Any
) -> None:
    pod = await start(accept_seconds=0.2, deadline_seconds=20.0)
    async with await pod.infer(call()) as reply:
        assert "Connection" not in reply.headers
    pod.model.gate.clear()
    waiting = [asyncio.create_task(pod.infer(call(rows=8))) for _ in range(4)]
    await until(lambda: pod.pod.admission.load().waiting == 3)
    pod.clock.stop()
    draining = asyncio.create_task(drain(pod.pod, pod.client))
    await until(lambda: not pod.pod.health.ready)
    early = asyncio.create_task(pod.infer(call()))
    await until(lambda: pod.pod.admission.load().waiting == 4)
    assert pod.pod.health.stage == "Closing"
    pod.clock.move(0.2)
    await until(lambda: pod.pod.health.stage == "Draining")
    async with await pod.infer(call()) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
        assert reply.headers["Connection"] == "close"
    pod.model.gate.set()
    for task in (early, *waiting):
        served = await task
        assert served.status == 200
        assert served.headers["Connection"] == "close"
    pod.clock.move(QUIET_SECONDS)
    await draining
    assert pod.pod.counters.settled() == pod.pod.counters.received


async def test_requests_that_cannot_finish_by_the_deadline_get_503(
    start: Any, call: Call, until: Any
) -> None:
    pod = await start(accept_seconds=0.0, deadline_seconds=0.3)
    pod.model.gate.clear()
    tasks = [asyncio.create_task(pod.infer(call(rows=8))) for _ in range(3)]
    await until(lambda: pod.pod.admission.load().waiting == 2)
    await drain(pod.pod, pod.client)
    for task in tasks:
        reply = await task
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert pod.pod.counters.settled() == pod.pod.counters.received == 3
    pod.model.gate.set()


async def test_a_pod_stays_while_clients_come_and_leaves_when_they_are_gone(
    start: Any, call: Call, until: Any
) -> None:
    pod = await start(accept_seconds=0.0)
    async with await pod.infer(call()) as reply:
        await reply.read()
    pod.clock.stop()
    draining = asyncio.create_task(drain(pod.pod, pod.client))
    await until(lambda: pod.pod.health.stage == "Draining")
    for _ in range(3):
        pod.clock.move(QUIET_SECONDS / 2)
        await asyncio.sleep(3 * LOOK_SECONDS)
        assert not draining.done()
        async with await pod.infer(call()) as reply:
            assert (reply.status, reply.headers["Connection"]) == (503, "close")
            await reply.read()
    pod.clock.move(QUIET_SECONDS)
    await draining


async def test_a_silent_connection_does_not_keep_a_pod(start: Any, call: Call) -> None:
    pod = await start(accept_seconds=0.0)
    async with await pod.infer(call()) as reply:
        await reply.read()
    pod.clock.stop()
    draining = asyncio.create_task(drain(pod.pod, pod.client))
    pod.clock.move(IDLE_SECONDS - 0.1)
    await asyncio.sleep(3 * LOOK_SECONDS)
    assert not draining.done()
    pod.clock.move(0.1)
    await draining
    assert pod.client.open_connections() == 1


async def test_a_pod_without_clients_stops_as_soon_as_it_may(start: Any, until: Any) -> None:
    pod = await start(accept_seconds=5.0)
    pod.clock.stop()
    draining = asyncio.create_task(drain(pod.pod, pod.client))
    await until(lambda: pod.pod.health.stage == "Closing")
    pod.clock.move(5.0)
    await draining


async def readiness_probe(pod: Any) -> int:
    """Send a readiness probe as the kubelet does, a moment after the last one."""
    pod.clock.move(0.01)
    headers = {"User-Agent": "kube-probe/1.36"}
    async with pod.session.get(f"{pod.cluster_url}/readyz", headers=headers) as reply:
        status: int = reply.status
        return status


async def test_a_stopping_pod_waits_for_the_next_readiness_probe(start: Any) -> None:
    pod = await start()
    pod.clock.stop()
    await readiness_probe(pod)
    pod.pod.health.stage = Stage.CLOSING
    waiting = asyncio.create_task(await_probe(pod.pod))
    await asyncio.sleep(3 * LOOK_SECONDS)
    assert not waiting.done()
    assert await readiness_probe(pod) == 200
    await waiting


async def test_a_pod_whose_kubelet_is_silent_waits_no_longer_than_a_period(start: Any) -> None:
    pod = await start()
    pod.clock.stop()
    await readiness_probe(pod)
    waiting = asyncio.create_task(await_probe(pod.pod))
    await asyncio.sleep(3 * LOOK_SECONDS)
    assert not waiting.done()
    pod.clock.move(PROBE_SECONDS)
    await waiting


async def test_a_pod_that_no_kubelet_probes_waits_for_none(start: Any) -> None:
    pod = await start()
    pod.clock.stop()
    await await_probe(pod.pod)
