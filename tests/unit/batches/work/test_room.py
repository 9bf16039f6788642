"""The room on the disk of what is over: files, and segments of answers."""

import time
from pathlib import Path
from typing import Any

import pytest

from penstock_batches.payloads import Payloads
from penstock_batches.service import make_store
from penstock_batches.work import supervisor
from tests.support.batches.scripted_pool import Scripted
from tests.support.batches.served import (
    ended,
    jsonl,
    request_line,
    running,
    served,
    settings,
    submitted,
    until,
)
from tests.unit.batches.values import file, in_progress

USED = [f"file-{number:02}" for number in range(8)]
UNUSED = [f"file-{number:02}" for number in range(8, 20)]


async def test_files_in_use_do_not_keep_later_ones_from_being_deleted(
    tmp_path: Path, store_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SWEPT_FILES", 3)
    given = settings(tmp_path, **store_settings)
    payloads, store, now = Payloads(given.payload_folder), make_store(given), time.time()
    payloads.prepare()
    await store.open()
    for number, file_id in enumerate(USED + UNUSED):
        part = payloads.part()
        part.write(b"x")
        part.commit(file_id)
        await store.add_file(file(id=file_id, expires_at=now - 1000 + number))
    for number, file_id in enumerate(USED):
        batch = in_progress(number, input_file_id=file_id, expires_at=now + 1000)
        await store.add_batch(batch)
        await store.set_total(batch.id, 1)
    await store.close()
    async with served(given):
        await until(lambda: not any(payloads.path(file_id).exists() for file_id in UNUSED))
        assert all(payloads.path(file_id).exists() for file_id in USED)


async def test_the_segment_of_a_batch_that_was_never_dispatched_is_closed(tmp_path: Path) -> None:
    script = lambda _prompt, _times: Scripted(seconds=3600)  # noqa: E731
    async with running(tmp_path, script, max_in_flight=1) as (service, pool, client):
        await submitted(client, jsonl([request_line("first")]), "1h")
        await until(lambda: bool(pool.sent))
        batch_id = await submitted(client, jsonl(["{bad", request_line("later")]))
        recorder = service.service.recorder
        await until(lambda: batch_id in recorder.open_batches)
        await client.batches.cancel(batch_id)
        await ended(client, batch_id)
        await until(lambda: not recorder.open_batches, 10)
