"""The room on the disk of what is over: files, and segments of answers."""

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from penstock_batches import transitions
from penstock_batches.dispatch import sender
from penstock_batches.errors import VolumeFull
from penstock_batches.http import batches
from penstock_batches.payloads import Payloads, Segment
from penstock_batches.service import make_store
from penstock_batches.work import intake, sweeper
from tests.support.batches.scripted_pool import Scripted
from tests.support.batches.served import (
    ended,
    jsonl,
    lines_of,
    request_line,
    running,
    served,
    settings,
    submitted,
    until,
)
from tests.unit.batches.values import batch as new_batch
from tests.unit.batches.values import file, in_progress

USED = [f"file-{number:02}" for number in range(8)]
UNUSED = [f"file-{number:02}" for number in range(8, 20)]


async def test_files_in_use_do_not_keep_later_ones_from_being_deleted(
    tmp_path: Path, store_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "SWEPT_FILES", 3)
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


async def test_the_record_of_a_batch_goes_after_its_files(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    given = settings(tmp_path, **store_settings)
    store, day = make_store(given), 86_400.0
    await store.open()
    for number, days in ((1, 31), (2, 29)):
        old = new_batch(number, expires_at=time.time() - days * day)
        await store.add_batch(old)
        await store.write(transitions.failed(old, (), old.expires_at))
    await store.close()
    async with served(given) as service, service.client() as client:
        store, end = service.service.store, time.monotonic() + 10
        while await store.batch("batch_1") is not None:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        with pytest.raises(openai.NotFoundError):
            await client.batches.retrieve("batch_1")
        assert [each.id async for each in client.batches.list()] == ["batch_2"]


async def test_beyond_the_most_records_of_a_tenant_the_oldest_that_ended_go(
    tmp_path: Path, store_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MAX_RECORDS", 2)
    script = lambda _prompt, _times: Scripted(seconds=3600)  # noqa: E731
    async with running(tmp_path, script, **store_settings) as (_, _pool, client):
        active = await submitted(client, jsonl([request_line("slow")]))
        others = []
        for _ in range(3):
            others.append(await submitted(client, jsonl([request_line("slow")])))
            await client.batches.cancel(others[-1])
            await ended(client, others[-1])
        last = await submitted(client, jsonl([request_line("slow")]))
        shown = [each.id async for each in client.batches.list()]
        assert shown == [last, others[-1], active]


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


async def test_a_full_volume_stops_neither_other_batches_nor_deletions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "SWEEP_SECONDS", 0.1)

    def full(_segment: Segment, _contents: list[bytes]) -> list[int]:
        raise VolumeFull("full")

    async with running(tmp_path) as (service, pool, client):
        payloads, store = service.service.payloads, service.service.store
        with monkeypatch.context() as patch:
            patch.setattr(Segment, "append", full)
            faulty = await submitted(client, jsonl(["{bad", request_line("later")]), "1h")
            await until(lambda: faulty in service.service.recorder.open_batches)
            cancelled = await submitted(client, jsonl([request_line("waits")]))
            await until(lambda: bool(pool.sent))
            await client.batches.cancel(cancelled)
            assert (await ended(client, cancelled)).status == "cancelled"
            answered = await submitted(client, jsonl([request_line("answered")]))
            await until(lambda: pool.sent["answered"] == 1)
            expired = payloads.part()
            expired.write(b"x")
            expired.commit("file-1")
            await store.add_file(file(expires_at=time.time()))
            await until(lambda: not payloads.path("file-1").exists())
        batch = await ended(client, faulty)
        assert batch.request_counts is not None
        assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 1)
        output = await lines_of(client, (await ended(client, answered)).output_file_id)
        assert [each["custom_id"] for each in output] == ["answered"]
        assert pool.sent["answered"] == 1


async def test_a_repeated_validation_writes_no_fault_again(
    tmp_path: Path, store_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "GROUP_LINES", 2)
    append, calls, written = Segment.append, itertools.count(), list[bytes]()

    def often_full(segment: Segment, contents: list[bytes]) -> list[int]:
        if next(calls) % 2:
            raise VolumeFull("full")
        written.extend(contents)
        return append(segment, contents)

    monkeypatch.setattr(Segment, "append", often_full)
    async with running(tmp_path, **store_settings) as (_, _pool, client):
        content = jsonl([*["{bad"] * 6, request_line("good")])
        batch = await ended(client, await submitted(client, content), 20)
        assert batch.request_counts is not None
        assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 6)
        assert batch.errors is not None
        assert len(batch.errors.data or []) == len(written) - 1 == 6


async def test_answers_that_cannot_be_recorded_stop_the_reading_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "ANSWERS_BYTES", 2500)

    def full(_segment: Segment, _contents: list[bytes]) -> list[int]:
        raise VolumeFull("full")

    lines = [request_line(str(number), prompt=f"{number:1000}") for number in range(6)]
    async with running(tmp_path) as (service, pool, client):
        attempts = service.service.sender.attempts
        with monkeypatch.context() as patch:
            patch.setattr(Segment, "append", full)
            batch_id = await submitted(client, jsonl(lines))
            await until(lambda: pool.sent.total() >= 4 and attempts["200"] == 2)
            await asyncio.sleep(0.5)
            assert attempts["200"] == 2
        batch = await ended(client, batch_id)
        assert len(await lines_of(client, batch.output_file_id)) == 6
        assert set(pool.sent.values()) == {1}
