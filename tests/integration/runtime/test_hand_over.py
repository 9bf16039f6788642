"""Draining processes hand their generations over to others; clients see the answers of an undisturbed run."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runtime.test_every_generation_ends import SOURCE, request_counts
from tests.support.runtime.process import START_SECONDS
from tests.unit.runtime.protocols.handover.cases import (
    GATE,
    TEXT,
    Call,
    PoolAddress,
    answer_of,
    by_choice,
)
from tests.unit.runtime.protocols.openai.served import save_tiny_model

KEYS = '{"keys": [{"key": "secret-of-a", "tenant": "a", "requestsPerMinute": 6000}]}'
BEARER = {"Authorization": "Bearer secret-of-a"}
STREAMS = 12
LONG: Call = (TEXT, {**GATE, "max_tokens": 600, "temperature": 1.1})


@pytest.fixture
def pool() -> Iterator[PoolAddress]:
    address = PoolAddress()
    yield address
    address.close()


def start(launch: Any, folder: Path, pool: PoolAddress, placement: str) -> Any:
    """Start a pod of the pool."""
    return launch(
        model={"name": "tiny", "task": "TextGeneration", "source": SOURCE},
        PENSTOCK_MODEL_FOLDER=str(folder),
        PENSTOCK_CACHE_BYTES=str(1 << 24),
        PENSTOCK_COMPUTE_BACKEND="Torch",
        PENSTOCK_DTYPE="float64",
        PENSTOCK_ACCEPT_SECONDS="0",
        PENSTOCK_DRAIN_DEADLINE_SECONDS="2.1",
        PENSTOCK_API_KEYS_FILE=str(folder / "keys.json"),
        PENSTOCK_PEER_URL=pool.url,
        PENSTOCK_PLACEMENT=placement,
    )


async def keys_read(pod: Any) -> None:
    """Wait until `pod` knows its keys, which it reads when it is ready."""
    path, body = call(0)
    short: Call = (path, {**body, "max_tokens": 1})
    async with asyncio.timeout(START_SECONDS):
        while b"invalid_api_key" in await answer_of(pod.client, short, **BEARER):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def handovers(pod: Any, result: str) -> float:
    return float(pod.metric(f'penstock_handovers_total{{result="{result}"}}'))


def call(seed: int) -> Call:
    path, body = LONG
    return path, {**body, "seed": seed}


@pytest.mark.parametrize("placement", [pytest.param("Thread", marks=pytest.mark.long), "Process"])
async def test_streams_survive_the_drain_of_their_pod_and_the_death_of_the_next(
    launch: Any, tmp_path: Path, pool: PoolAddress, placement: str
) -> None:
    folder = tmp_path / "model"
    save_tiny_model(folder)
    (folder / "keys.json").write_text(KEYS)
    first, second, third = (start(launch, folder, pool, placement) for _ in range(3))
    for pod in (first, second, third):
        await asyncio.to_thread(pod.ready)
        await keys_read(pod)
    undisturbed = await asyncio.gather(
        *(answer_of(third.client, call(seed), **BEARER) for seed in range(STREAMS))
    )
    pool.pods = [second.client] * STREAMS + [third.client]
    streams = [
        asyncio.create_task(answer_of(first.client, call(seed), **BEARER))
        for seed in range(STREAMS)
    ]
    decoded = 'penstock_tokens_total{phase="decode"}'
    while await asyncio.to_thread(first.metric, decoded) < STREAMS:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)
    first.process.send_signal(signal.SIGTERM)
    while await asyncio.to_thread(handovers, second, "taken_over") < STREAMS:
        assert not all(stream.done() for stream in streams), "they ended before the hand-over"
        await asyncio.sleep(0.01)
    second.process.kill()
    for seed, stream in enumerate(streams):
        assert by_choice(await stream) == by_choice(undisturbed[seed]), seed
    assert await asyncio.to_thread(first.stopped) == 0
    assert await asyncio.to_thread(handovers, third, "taken_over") > 0
    came, left = await asyncio.to_thread(request_counts, third)
    assert came == left
