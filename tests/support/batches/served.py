"""The batch service in this process, on loopback, and OpenAI's client of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
from openai.types import Batch

from penstock_batches.config import BatchSettings
from penstock_batches.http.server import client_app, listening
from penstock_batches.service import BatchService, serving
from tests.support.batches.scripted_pool import Script, Scripted, ScriptedPool, scripted_pool

ENDED = ("completed", "failed", "expired", "cancelled")


def settings(folder: Path, **more: Any) -> BatchSettings:
    """Settings of a service in `folder` on free ports, with the store on SQLite and no pool."""
    values: dict[str, Any] = {
        "namespace": "team-a",
        "folder": str(folder),
        "host": "127.0.0.1",
        "port": 0,
        "status_port": 0,
        "pools": "demo=http://127.0.0.1:9",
        "min_free_bytes": 0,
        "lease_seconds": 2.0,
        "drain_seconds": 0.0,
    }
    return BatchSettings(**values | more)


class Served:
    """A running service."""

    def __init__(self, service: BatchService, client_port: int, status_port: int) -> None:
        self.service = service
        self.url = f"http://127.0.0.1:{client_port}"
        self.status_url = f"http://127.0.0.1:{status_port}"

    def client(self, key: str = "none") -> openai.AsyncOpenAI:
        """Return OpenAI's client; close it."""
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)


@asynccontextmanager
async def served(given: BatchSettings) -> AsyncIterator[Served]:
    """Run a service."""
    async with serving(given) as service:
        yield Served(service, service.port, service.status_port)


def _always(_prompt: str, _times: int) -> Scripted:
    return Scripted()


@asynccontextmanager
async def running(
    folder: Path, script: Script = _always, **more: Any
) -> AsyncIterator[tuple[Served, ScriptedPool, openai.AsyncOpenAI]]:
    """Run a scripted pool, a service in front of it, and a client."""
    async with scripted_pool(script) as pool:
        given = settings(folder, pools=f"demo={pool.url}", **more)
        async with served(given) as service, service.client() as client:
            yield service, pool, client


@asynccontextmanager
async def api_only(given: BatchSettings) -> AsyncIterator[Served]:
    """Run the API of a service, without the work behind it: batches stay as they were created."""
    service = BatchService(given)
    await service.open()
    app = client_app(service.routes)
    try:
        async with listening(app, given.host, 0) as port:
            yield Served(service, port, 0)
    finally:
        await service.store.close()
        await service.sender.close()


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def ended(client: openai.AsyncOpenAI, batch_id: str, seconds: float = 60.0) -> Batch:
    """Return a batch once it has ended."""
    end = time.monotonic() + seconds
    while (batch := await client.batches.retrieve(batch_id)).status not in ENDED:
        assert time.monotonic() < end, batch
        await asyncio.sleep(0.05)
    return batch


async def submitted(client: openai.AsyncOpenAI, content: bytes, window: str = "24h") -> str:
    """Upload an input file, create a batch of it, and return its id."""
    file = await client.files.create(file=("in.jsonl", content), purpose="batch")
    batch = await client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/completions",
        completion_window=window,  # type: ignore[arg-type]  # ours may be shorter
    )
    return batch.id


async def lines_of(client: openai.AsyncOpenAI, file_id: str | None) -> list[dict[str, Any]]:
    """Return the lines of an output or error file; none of no file."""
    if file_id is None:
        return []
    return [json.loads(line) for line in (await client.files.content(file_id)).text.splitlines()]


def request_line(custom_id: str, **body: Any) -> dict[str, Any]:
    """Return a line of an input file for `/v1/completions`."""
    fields = {"model": "demo", "prompt": custom_id, "max_tokens": 4}
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/completions",
        "body": fields | body,
    }


def jsonl(lines: Sequence[Mapping[str, Any] | str]) -> bytes:
    """Return lines as a file; texts are lines as they are."""
    return b"".join(
        (line if isinstance(line, str) else json.dumps(line)).encode() + b"\n" for line in lines
    )
