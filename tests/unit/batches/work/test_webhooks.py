"""Calls of webhooks: receivers that do not answer, and turns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock_batches.errors import BatchesConfigError
from penstock_batches.records import BatchJob, Status
from penstock_batches.store.sqlite import SqliteStore
from penstock_batches.work import webhooks
from penstock_batches.work.webhooks import Webhooks
from tests.support.batches.receiver import receiver
from tests.support.batches.served import served, settings, until
from tests.unit.batches.values import batch


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path)
    await opened.open()
    yield opened
    await opened.close()


@asynccontextmanager
async def calls_of(store: SqliteStore, secret_file: str = "") -> AsyncIterator[Webhooks]:
    calls = Webhooks(store, "this", secret_file)
    try:
        yield calls
    finally:
        await calls.close()


async def due(store: SqliteStore, tenant: str, url: str, numbers: range) -> list[BatchJob]:
    """Return requests that have ended and whose webhook is due."""
    requests = [
        batch(number, tenant, infer=True, webhook=url, status=Status.COMPLETED, completed_at=2e9)
        for number in numbers
    ]
    for each in requests:
        await store.add_batch(each)
    return requests


async def remaining(store: SqliteStore, number: int) -> list[BatchJob]:
    """Return the requests whose webhook is open, once they are so many."""
    active = await store.active()
    while len(active) > number:
        await asyncio.sleep(0.01)
        active = await store.active()
    return active


async def test_a_receiver_that_does_not_answer_leaves_calls_to_others(store: SqliteStore) -> None:
    connected: list[asyncio.StreamWriter] = []

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    slow = await due(store, "slow", f"http://127.0.0.1:{port}/hook", range(40))
    async with receiver() as hook, calls_of(store) as calls:
        calls.call(slow + await due(store, "quick", hook.url, range(40, 60)))
        async with asyncio.timeout(5):
            await hook.until(20)
        assert len(connected) == webhooks.MAX_RECEIVER_CALLS
        await until(lambda: calls.calls["204"] == 20)
        assert {each.tenant for each in await remaining(store, 40)} == {"slow"}
    server.close()
    for writer in connected:
        writer.close()


async def test_receivers_take_turns(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_CALLS", 1)
    async with receiver() as hook, calls_of(store) as calls:
        first = await due(store, "first", hook.url, range(4))
        second = await due(store, "second", hook.url, range(4, 6))
        calls.call(first + second)
        await hook.until(6)
        order = [headers["webhook-id"] for headers, _ in hook.got]
        assert order == [f"batch_{number}" for number in (0, 4, 1, 5, 2, 3)]


async def test_a_receiver_whose_next_call_is_not_due_keeps_its_turn(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MAX_CALLS", 1)
    monkeypatch.setattr(webhooks, "FIRST_RETRY_SECONDS", 60.0)
    async with receiver(500) as hook, calls_of(store) as calls:
        first = await due(store, "first", hook.url, range(1))
        calls.call(first)
        await until(lambda: calls.calls["500"] == 1)
        calls.call(first)
        calls._due[first[0].id] = 0.0
        calls.call(first + await due(store, "second", hook.url, range(1, 2)))
        await hook.until(3)
        order = [headers["webhook-id"] for headers, _ in hook.got]
        assert order == [f"batch_{number}" for number in (0, 1, 0)]


async def test_the_writing_of_a_host_makes_no_other_receiver(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MAX_RECEIVER_CALLS", 1)
    release, most = asyncio.Event(), 0

    async def posted(self: Webhooks, _batch: BatchJob) -> bool:
        nonlocal most
        most = max(most, len(self._calling))
        return await release.wait()

    monkeypatch.setattr(Webhooks, "_posted", posted)
    urls = [
        f"http://{host}/hook" for host in ("a.example", "A.example", "a.EXAMPLE:", "a.example:80")
    ]
    async with calls_of(store) as calls:
        calls.call(
            [
                each
                for n, url in enumerate(urls)
                for each in await due(store, "", url, range(n, n + 1))
            ]
        )
        await until(lambda: most > 0)
        release.set()
        await remaining(store, 0)
        await until(lambda: not calls._calling)
        assert (most, len(calls._busy)) == (1, 0)


async def test_an_answered_call_is_not_repeated_by_an_older_list(store: SqliteStore) -> None:
    async with receiver() as hook, calls_of(store) as calls:
        older = await due(store, "", hook.url, range(1))
        calls.call(older)
        await until(lambda: calls.calls["204"] == 1)
        await remaining(store, 0)
        calls.call(older)
        await asyncio.sleep(0.2)
        assert len(hook.got) == 1


@pytest.mark.parametrize("content", [b"whsec_not-base64!", b"whsec_YWJ", b"whsec_", b" ", b"\xff"])
async def test_a_secret_that_signs_nothing_is_an_error_of_its_setting(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "secret").write_bytes(content)
    given = settings(tmp_path, webhook_secret_file=str(tmp_path / "secret"))
    with pytest.raises(BatchesConfigError, match="PENSTOCK_WEBHOOK_SECRET_FILE must have"):
        async with served(given):
            pass


async def test_a_call_that_cannot_be_signed_is_a_failed_one(
    store: SqliteStore, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("whsec_not-base64!\n")
    async with receiver() as hook, calls_of(store, str(tmp_path / "secret")) as calls:
        requests = await due(store, "", hook.url, range(1))
        calls.call(requests)
        await until(lambda: not calls._calling)
        assert calls.calls == {"Failed": 1}
        assert requests[0].id in calls._due
