"""Under load, a drain loses no request and a change of limits fails none."""

import asyncio
import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp

from penstock_runtime.drain import QUIET_SECONDS
from tests.integration.runtime.conftest import QUICK

BODY = {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": list(range(8))}]}
ANSWER = [2.0 * value + 1.0 for value in range(8)]


class Clients:
    """Keep-alive clients that repeat a request after each answer until one is rejected."""

    def __init__(self, pod: Any) -> None:
        self._url = f"{pod.client}/v2/models/demo/infer"
        self.seen: Counter[str] = Counter()
        self.stop = False
        self.stalled_seconds = 0.0
        """Longest time for which their event loop stood still."""

    async def run(self, number: int, pause_seconds: float = 0.0) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            watching = asyncio.create_task(self._watch())
            async with asyncio.TaskGroup() as repeating:
                for _ in range(number):
                    repeating.create_task(self._repeat(session, pause_seconds))
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.05)
            self.stalled_seconds = max(self.stalled_seconds, time.monotonic() - began - 0.05)

    async def _repeat(self, session: aiohttp.ClientSession, pause_seconds: float) -> None:
        while not self.stop:
            kind = await self._request(session)
            self.seen[kind] += 1
            if kind != "served":
                return
            await asyncio.sleep(pause_seconds)

    async def _request(self, session: aiohttp.ClientSession) -> str:
        try:
            async with session.post(self._url, json=BODY) as reply:
                answer = await reply.json()
                if reply.status == 503 and "Retry-After" in reply.headers:
                    return "rejected"
                right = reply.status == 200 and answer["outputs"][0]["data"] == ANSWER
                return "served" if right else f"lost: {reply.status} {answer}"
        except aiohttp.ClientError as error:
            return f"lost: {error!r}"


async def until(holds: Callable[[], bool]) -> None:
    """Wait until `holds`; the test fails if it never does."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - no event exists for the awaited condition
            await asyncio.sleep(0.02)


async def test_no_request_is_lost_while_a_pod_drains_under_load(launch: Any) -> None:
    for _ in range(5):  # clients that stand still for longer than the pod waits find it gone
        pod = launch(QUICK)
        await asyncio.to_thread(pod.ready)
        busy, calm = await _drained(pod)
        if busy.stalled_seconds < QUIET_SECONDS / 2:
            break
    assert set(busy.seen) == {"served", "rejected"}
    assert busy.seen["rejected"] == 24, (
        "every client got a 503 with Retry-After, and no connection was reset"
    )
    assert set(calm.seen) == {"served"}


async def _drained(pod: Any) -> tuple[Clients, Clients]:
    busy, calm = Clients(pod), Clients(pod)
    working = [asyncio.create_task(busy.run(24)), asyncio.create_task(calm.run(8, 0.4))]
    await until(lambda: busy.seen["served"] > 500 and calm.seen["served"] > 8)
    pod.process.send_signal(signal.SIGTERM)
    await until(lambda: pod.get("/readyz") == (503, "Closing\n"))
    await asyncio.sleep(2.0)
    calm.stop = True  # by now the endpoint is removed, and new connections go to other pods
    await asyncio.gather(*working)
    assert await asyncio.to_thread(pod.stopped) == 0
    return busy, calm


async def test_the_kubelet_finds_a_draining_pod_ready_and_others_do_not(runtime: Any) -> None:
    def probe() -> Any:
        return runtime.get("/readyz", **{"User-Agent": "kube-probe/1.36"})

    assert probe() == (200, "ok\n")
    runtime.process.send_signal(signal.SIGTERM)
    for stage in ("Closing", "Draining"):
        await until(lambda stage=stage: runtime.get("/readyz") == (503, f"{stage}\n"))  # type: ignore[misc]
        assert probe() == (200, "ok\n")
    assert await asyncio.to_thread(runtime.stopped) == 0


async def test_requests_queued_for_a_slow_model_are_served_before_the_pod_exits(
    launch: Any,
) -> None:
    pod = launch(
        {"a_milliseconds": "400", "c_milliseconds": "1", "max_rows": "2"},
        PENSTOCK_ACCEPT_SECONDS="0.1",
    )
    await asyncio.to_thread(pod.ready)
    clients = Clients(pod)
    working = asyncio.create_task(clients.run(12))
    await until(lambda: pod.metric("penstock_requests_received_total") == 12)
    pod.process.send_signal(signal.SIGTERM)
    await working
    assert await asyncio.to_thread(pod.stopped) == 0
    assert set(clients.seen) == {"served", "rejected"}
    assert clients.seen["served"] >= 12


async def test_limits_change_under_load_without_a_failed_request(runtime: Any) -> None:
    clients = Clients(runtime)
    working = asyncio.create_task(clients.run(32))
    await until(lambda: clients.seen["served"] > 32)
    for generation, cap in zip(itertools.count(1), (1, 16, 2, 64, 4), strict=False):
        limits = {
            "generation": generation,
            "maxBatchSize": cap,
            "maxQueueDepth": 2048,
            "maxQueueDelayMilliseconds": 0,
            "discipline": ("FirstInFirstOut", "EarliestDeadlineFirst")[generation % 2],
        }
        status, state = await asyncio.to_thread(runtime.patch_limits, **limits)
        assert (status, state["generation"]) == (200, generation)
        before = await asyncio.to_thread(_batches, runtime)
        batches = 0.0
        while batches < 5:
            await asyncio.sleep(0.1)
            after = await asyncio.to_thread(_batches, runtime)
            rows, batches = (b - a for a, b in zip(before, after, strict=True))
        assert rows / batches <= cap
    status, answer = await asyncio.to_thread(runtime.patch_limits, **{**limits, "generation": 1})
    assert (status, answer["generation"]) == (409, 5)
    clients.stop = True
    await working
    assert set(clients.seen) == {"served"}


def _batches(runtime: Any) -> tuple[float, float]:
    """Return the total rows and batches of a single scrape, so that both belong to the same time."""
    lines = runtime.get("/metrics")[1].splitlines()
    samples = dict(line.split() for line in lines if line.startswith("penstock_batch_size_"))
    return (
        float(samples["penstock_batch_size_sum"]),
        float(samples["penstock_batch_size_count"]),
    )


async def test_a_full_queue_answers_with_retry_after(launch: Any) -> None:
    limits = {
        "generation": 1,
        "maxBatchSize": 1,
        "maxQueueDepth": 4,
        "maxQueueDelayMilliseconds": 0,
        "discipline": "FirstInFirstOut",
    }
    pod = launch({"a_milliseconds": "700", "c_milliseconds": "0"}, limits=limits)
    await asyncio.to_thread(pod.ready)
    async with aiohttp.ClientSession() as session:
        url = f"{pod.client}/v2/models/demo/infer"
        replies = await asyncio.gather(*(session.post(url, json=BODY) for _ in range(12)))
        seen = Counter(reply.status for reply in replies)
        waits = {reply.headers["Retry-After"] for reply in replies if reply.status == 429}
        for reply in replies:
            reply.release()
    assert seen[200] + seen[429] == 12
    assert seen[200] in (4, 5)
    assert waits <= {"2", "3", "4"}, "four requests of 0.7 s wait"
