"""Every request ends, among thousands of valid, invalid, hurried and abandoned ones, under changing limits and SIGTERM."""

import asyncio
import json
import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.unit.runtime.protocols.openai.served import save_tiny_model

AT_ONCE = 48
PATIENCE_SECONDS = 240.0
"""Time after which a request counts as one without an end."""
SOURCE = {
    "type": "PersistentVolumeClaim",
    "persistentVolumeClaim": {"claimName": "tiny", "path": "."},
}
BAD: tuple[dict[str, object], ...] = (
    {"max_tokens": -1},
    {"temperature": "hot"},
    {"prompt": []},
    {"prompt": "x" * 20_000},
    {"model": "another"},
    {"n": 0},
)


LEFT = frozenset({"left", "left its stream"})
SERVED = frozenset({"answered", "streamed", "answered before it left"})
FULL = "429"
PAUSE_SECONDS = 0.5
"""Pause of a client after a 429, so that rejections do not dominate the counts."""


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request and the behavior of its client."""

    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    leaves: bool = False
    bad: bool = False

    def may_end_as(self, *, draining: bool) -> frozenset[str]:
        """Return the correct ends: the pod rejects invalid requests, and no others."""
        ends = frozenset({FULL})
        ends |= {"400", "404"} if self.bad else SERVED
        if self.leaves:
            ends |= LEFT
        if self.headers:  # its deadline may pass, also before its fault is found
            ends |= {"504"} if self.bad else {"504", "stream with an error"}
        if draining:
            ends |= {"503", "connection refused"}
            ends |= frozenset() if self.bad else {"stream with an error"}
        return ends


class Crowd:
    """Random clients of every kind, drawn from a seed."""

    def __init__(self, url: str, seed: int, *, draining: bool = False) -> None:
        self._url = url
        self._chance = random.Random(seed)  # noqa: S311 - clients' whims, no secret
        self._draining = draining
        self.ends: Counter[str] = Counter()
        self.wronged: list[tuple[str, PlannedRequest]] = []
        """Requests with an end that `may_end_as` does not allow."""

    async def send(self, number: int) -> None:
        """Send `number` requests, AT_ONCE concurrently; each is counted by its end."""
        gate = asyncio.Semaphore(AT_ONCE)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(number):
                await gate.acquire()
                task = group.create_task(self._one(session))
                task.add_done_callback(lambda _: gate.release())

    async def _one(self, session: aiohttp.ClientSession) -> None:
        request = self._draw()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                kind = await self._send(session, request)
        except TimeoutError:
            kind = "without an end"
        except aiohttp.ClientConnectorError:
            kind = "connection refused"  # after the drain
        except aiohttp.ClientError as error:
            kind = f"cut off: {error!r:.120}"
        self.ends[kind] += 1
        if kind not in request.may_end_as(draining=self._draining):
            self.wronged.append((kind, request))
        if kind == FULL:
            await asyncio.sleep(PAUSE_SECONDS)

    def _draw(self) -> PlannedRequest:
        chance, headers = self._chance, dict[str, str]()
        body: dict[str, Any] = {
            "model": "tiny",
            "prompt": "word " * chance.randint(1, 30),
            "max_tokens": chance.randint(1, 24),
            "temperature": chance.choice([0.0, 1.0]),
            "ignore_eos": True,
            "stream": chance.random() < 0.5,
            "n": chance.choice([1, 1, 1, 2]),
        }
        leaves = chance.random() < 0.15
        if chance.random() < 0.1:
            headers["X-Request-Timeout-Ms"] = str(chance.choice([1, 20, 200]))
        bad = chance.random() < 0.1
        if bad:
            body |= chance.choice(BAD)
        return PlannedRequest(body, headers, leaves=leaves, bad=bad)

    async def _send(self, session: aiohttp.ClientSession, request: PlannedRequest) -> str:
        body, url = request.body, f"{self._url}/v1/completions"
        if request.leaves and not body["stream"]:
            return await self._leave(session.post(url, json=body, headers=request.headers))
        async with session.post(url, json=body, headers=request.headers) as reply:
            if reply.status != 200:
                answer = await reply.json()
                return f"{reply.status}" if "error" in answer else f"no error message: {answer}"
            if body["stream"]:
                return await self._read(
                    reply, self._chance.randint(0, 5) if request.leaves else None
                )
            answer = await reply.json()
            whole = all(choice["finish_reason"] == "length" for choice in answer["choices"])
            return "answered" if whole and len(answer["choices"]) == body["n"] else f"odd: {answer}"

    async def _leave(self, asking: Any) -> str:
        try:
            async with asyncio.timeout(self._chance.uniform(0.0, 0.1)):
                reply = await asking
                await reply.read()
        except TimeoutError:
            return "left"
        return "answered before it left" if reply.status == 200 else f"{reply.status}"

    @staticmethod
    async def _read(reply: aiohttp.ClientResponse, max_lines: int | None) -> str:
        last, failed, lines = b"", False, 0
        async for line in reply.content:
            if not line.strip():
                continue
            last, lines = line.strip(), lines + 1
            failed = failed or b'"error"' in line
            if max_lines is not None and lines > max_lines:
                reply.close()
                return "left its stream"
        if last != b"data: [DONE]":
            return f"stream without an end: {last!r:.80}"
        return "stream with an error" if failed else "streamed"


async def move_limits(pod: Any, seed: int, stop: asyncio.Event) -> int:
    """Change the limits repeatedly until `stop` is set; return the number of changes."""
    chance, generation = random.Random(seed), 1  # noqa: S311 - no secret
    while not stop.is_set():
        generation += 1
        cap = chance.choice([1, 4, 8, 32])
        status, state = await asyncio.to_thread(
            pod.patch_limits,
            generation=generation,
            maxBatchSize=cap,
            maxBatchedTokens=max(cap, chance.choice([32, 256])),
            maxQueueDepth=chance.choice([30, 4096]),
            maxQueueDelayMilliseconds=0,
            discipline=chance.choice(["FirstInFirstOut", "Priority", "FairShare"]),
            preemption=chance.choice(["Never", "LowerPriority", "TimeSlice"]),
            drain=chance.choice(["Finish", "Evict"]),
        )
        assert status == 200
        async with asyncio.timeout(60):  # limits apply at the next step
            while state["generation"] != generation:
                state = json.loads((await asyncio.to_thread(pod.get, "/control/v1/state"))[1])
        await asyncio.sleep(0.05)
    return generation


def request_counts(pod: Any) -> tuple[float, float]:
    """Return the number of received requests, and of those that ended or were rejected."""
    came = left = 0.0
    for line in pod.get("/metrics")[1].splitlines():
        name, _, value = line.rpartition(" ")
        if name == "penstock_requests_received_total":
            came = float(value)
        elif name.startswith(("penstock_requests_total{", "penstock_requests_refused_total{")):
            left += float(value)
    return came, left


async def every_request_ends(
    launch: Any, folder: Path, number: int, placement: str
) -> Counter[str]:
    save_tiny_model(folder)
    pod = launch(
        model={"name": "tiny", "task": "TextGeneration", "source": SOURCE},
        PENSTOCK_MODEL_FOLDER=str(folder),
        PENSTOCK_CACHE_BYTES=str(1 << 20),
        PENSTOCK_HOST_CACHE_BYTES=str(1 << 20),
        PENSTOCK_ACCEPT_SECONDS="3",
        PENSTOCK_PLACEMENT=placement,
    )
    await asyncio.to_thread(pod.ready)
    crowd, stop = Crowd(pod.client, seed=number), asyncio.Event()
    moving = asyncio.create_task(move_limits(pod, number, stop))
    await crowd.send(number)
    stop.set()
    assert await moving > 2
    for _ in range(100):
        came, left = await asyncio.to_thread(request_counts, pod)
        if came == left:
            break
        await asyncio.sleep(0.1)  # requests of clients that left end within a step
    assert came == left == pytest.approx(number, abs=0.2 * number)
    assert not crowd.wronged, crowd.wronged
    late = Crowd(pod.client, seed=number + 1, draining=True)
    last = asyncio.create_task(late.send(AT_ONCE))
    await asyncio.sleep(0.1)
    pod.process.send_signal(signal.SIGTERM)
    await last
    assert await asyncio.to_thread(pod.stopped) == 0
    print(json.dumps({"before": crowd.ends, "draining": late.ends}))
    assert not late.wronged, late.wronged
    return crowd.ends + late.ends


def served(ends: Counter[str]) -> int:
    return sum(ends[end] for end in SERVED)


async def test_the_crowd_detects_a_pod_that_serves_no_request() -> None:
    async def broken(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "a defect"}}, status=500)

    app = web.Application()
    app.router.add_post("/v1/completions", broken)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    crowd = Crowd(f"http://127.0.0.1:{site.port}", seed=1)
    await crowd.send(50)
    await runner.cleanup()
    assert len(crowd.wronged) == crowd.ends["500"] >= 40
    assert served(crowd.ends) == 0


def test_only_requests_with_a_deadline_may_expire_and_only_a_drain_rejects_valid_ones() -> None:
    plain, hurried = PlannedRequest({}), PlannedRequest({}, {"X-Request-Timeout-Ms": "20"})
    bad = PlannedRequest({}, bad=True)
    for end in ("504", "stream with an error"):
        assert end not in plain.may_end_as(draining=False)
        assert end in hurried.may_end_as(draining=False)
    assert "503" not in hurried.may_end_as(draining=False)
    assert "503" in plain.may_end_as(draining=True)
    assert "400" not in plain.may_end_as(draining=True)
    assert "answered" not in bad.may_end_as(draining=False)


@pytest.mark.parametrize("placement", ["Thread", "Process"])
async def test_every_request_ends(launch: Any, tmp_path: Path, placement: str) -> None:
    ends = await every_request_ends(launch, tmp_path / "model", 300, placement)
    assert ends["streamed"] > 20
    assert served(ends) > ends.total() / 3
    assert ends.total() == 300 + AT_ONCE


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("placement", ["Thread", "Process"])
async def test_ten_thousand_requests_end(launch: Any, tmp_path: Path, placement: str) -> None:
    ends = await every_request_ends(launch, tmp_path / "model", 10_000, placement)
    assert ends.total() == 10_000 + AT_ONCE
    assert served(ends) > ends.total() / 2
