"""Thousands of requests, good, bad, impatient and abandoned, while limits move and at last a SIGTERM: each has an end."""

import asyncio
import json
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.openai.served import save_tiny_model

AT_ONCE = 48
PATIENCE_SECONDS = 240.0
"""Past it a request counts as one without an end."""
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


class Crowd:
    """Clients of every kind, drawn from a seed."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._chance = random.Random(seed)  # noqa: S311 - clients' whims, no secret
        self.ends: Counter[str] = Counter()

    async def send(self, number: int) -> None:
        """Send `number` requests, AT_ONCE together; every one is counted under how it ended."""
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
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                kind = await self._ask(session)
        except TimeoutError:
            kind = "without an end"
        except aiohttp.ClientConnectorError:
            kind = "nobody listens"  # after the drain
        except aiohttp.ClientError as error:
            kind = f"cut off: {error!r:.120}"
        self.ends[kind] += 1

    async def _ask(self, session: aiohttp.ClientSession) -> str:
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
        if chance.random() < 0.1:
            body |= chance.choice(BAD)
        url = f"{self._url}/v1/completions"
        if leaves and not body["stream"]:
            return await self._leave(session.post(url, json=body, headers=headers))
        async with session.post(url, json=body, headers=headers) as reply:
            if reply.status != 200:
                answer = await reply.json()
                return f"{reply.status}" if "error" in answer else f"no words: {answer}"
            if body["stream"]:
                return await self._read(reply, chance.randint(0, 5) if leaves else None)
            answer = await reply.json()
            whole = all(one["finish_reason"] == "length" for one in answer["choices"])
            return "answered" if whole and len(answer["choices"]) == body["n"] else f"odd: {answer}"

    async def _leave(self, asking: Any) -> str:
        try:
            async with asyncio.timeout(self._chance.uniform(0.0, 0.1)):
                reply = await asking
                await reply.read()
        except TimeoutError:
            return "left"
        return "answered before it left"

    @staticmethod
    async def _read(reply: aiohttp.ClientResponse, most_lines: int | None) -> str:
        last, failed, lines = b"", False, 0
        async for line in reply.content:
            if not line.strip():
                continue
            last, lines = line.strip(), lines + 1
            failed = failed or b'"error"' in line
            if most_lines is not None and lines > most_lines:
                reply.close()
                return "left its stream"
        if last != b"data: [DONE]":
            return f"stream without an end: {last!r:.80}"
        return "stream with an error" if failed else "streamed"


async def move_limits(pod: Any, seed: int, stop: asyncio.Event) -> int:
    """Change the limits again and again; return how often."""
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
        async with asyncio.timeout(60):  # an answer waits for the next step, but not for ever
            while state["generation"] != generation:
                state = json.loads((await asyncio.to_thread(pod.get, "/control/v1/state"))[1])
        await asyncio.sleep(0.05)
    return generation


def books(pod: Any) -> tuple[float, float]:
    """Return how many requests came, and how many left by any end or refusal."""
    came = left = 0.0
    for line in pod.get("/metrics")[1].splitlines():
        name, _, value = line.rpartition(" ")
        if name == "penstock_requests_received_total":
            came = float(value)
        elif name.startswith(("penstock_requests_total{", "penstock_requests_refused_total{")):
            left += float(value)
    return came, left


async def everybody_has_an_end(
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
        came, left = await asyncio.to_thread(books, pod)
        if came == left:
            break
        await asyncio.sleep(0.1)  # those whose clients left are ended within a step
    assert came == left == pytest.approx(number, abs=0.2 * number)
    assert good(crowd.ends), crowd.ends
    late = Crowd(pod.client, seed=number + 1)
    last = asyncio.create_task(late.send(AT_ONCE))
    await asyncio.sleep(0.1)
    pod.process.send_signal(signal.SIGTERM)
    await last
    assert await asyncio.to_thread(pod.stopped, 60) == 0
    print(json.dumps({"before": crowd.ends, "draining": late.ends}))
    assert good(late.ends), late.ends
    return crowd.ends + late.ends


def good(ends: Counter[str]) -> bool:
    known = {"answered", "streamed", "left", "left its stream", "answered before it left"}
    known |= {"stream with an error", "nobody listens"}
    return all(end in known or end.isdigit() for end in ends)


@pytest.mark.parametrize("placement", ["Thread", "Process"])
async def test_everybody_has_an_end(launch: Any, tmp_path: Path, placement: str) -> None:
    ends = await everybody_has_an_end(launch, tmp_path / "model", 300, placement)
    assert ends["streamed"] > 20
    assert ends.total() == 300 + AT_ONCE


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("placement", ["Thread", "Process"])
async def test_ten_thousand_have_an_end(launch: Any, tmp_path: Path, placement: str) -> None:
    ends = await everybody_has_an_end(launch, tmp_path / "model", 10_000, placement)
    assert ends.total() == 10_000 + AT_ONCE
