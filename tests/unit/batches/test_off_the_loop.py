"""What blocks for long: parsing and the volume are off the event loop."""

import asyncio
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from penstock_batches import service as services
from penstock_batches.dispatch import sender
from tests.support.batches.served import (
    ended,
    jsonl,
    request_line,
    running,
    submitted,
    until,
)


async def test_lines_and_answers_are_parsed_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_loop = []
    for name in ("read_request", "response_line"):
        original = getattr(sender, name)

        def noted(*arguments: Any, name: str = name, original: Any = original) -> Any:
            on_the_loop.append((name, threading.current_thread() is threading.main_thread()))
            return original(*arguments)

        monkeypatch.setattr(sender, name, noted)
    async with running(tmp_path) as (_, _pool, client):
        await ended(client, await submitted(client, jsonl([request_line("a")])))
    assert on_the_loop == [("read_request", False), ("response_line", False)]


async def test_a_volume_that_hangs_delays_neither_health_nor_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, release, hangs = shutil.disk_usage, threading.Event(), threading.Event()

    def hanging(path: Path) -> Any:
        hangs.set()
        release.wait(20)
        return usage(path)

    monkeypatch.setattr(services, "VOLUME_SECONDS", 0.05)
    async with running(tmp_path) as (service, _, _client), aiohttp.ClientSession() as session:
        monkeypatch.setattr(shutil, "disk_usage", hanging)
        try:
            await until(hangs.is_set)
            began = time.monotonic()
            async with session.get(f"{service.status_url}/metrics") as reply:
                assert "penstock_batches_volume_free_bytes " in await reply.text()
            async with session.get(f"{service.status_url}/healthz") as reply:
                assert await reply.text() == "ok"
            assert time.monotonic() - began < 5
        finally:
            release.set()
        payloads = service.service.payloads
        payloads.last_free_bytes = None
        await asyncio.sleep(0)
        await until(lambda: payloads.last_free_bytes is not None)
