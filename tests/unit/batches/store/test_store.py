"""What every backend of the store guarantees, on SQLite and on a real Redis."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from penstock_batches import transitions
from penstock_batches.errors import StateConflict, StoreUnavailable
from penstock_batches.payloads import Payloads
from penstock_batches.records import Answer, Counts, Status
from penstock_batches.store import sqlite
from penstock_batches.store.base import Store
from penstock_batches.store.redis import RedisStore
from penstock_batches.store.sqlite import SqliteStore
from penstock_batches.work.finalizer import Finalizer
from tests.support.batches.redis_server import RedisServer
from tests.support.batches.served import jsonl, request_line
from tests.unit.batches.values import NOW, batch, file, in_progress, lines

FOREVER = 600.0


def answer(number: int, segment: str = "first", *, ok: bool = True) -> Answer:
    return Answer(number, segment, 0, 5, ok)


async def leased(store: Store, owner: str, limit: int, seconds: float = FOREVER) -> list[int]:
    taken = await store.lease("batch_1", owner, limit, seconds)
    return [line.number for line in taken]


async def test_files_of_a_tenant_come_in_pages_and_others_do_not(store: Store) -> None:
    for number in range(5):
        await store.add_file(file(number, "ours"))
    await store.add_file(file(9, "theirs"))
    newest = await store.files("ours", None, 3)
    assert [each.id for each in newest] == ["file-4", "file-3", "file-2"]
    assert [each.id for each in await store.files("ours", newest[-1], 3)] == ["file-1", "file-0"]
    oldest = await store.files("ours", None, 2, newest_first=False)
    assert [each.id for each in oldest] == ["file-0", "file-1"]
    more = await store.files("ours", oldest[-1], 9, newest_first=False)
    assert [each.id for each in more] == ["file-2", "file-3", "file-4"]


async def test_a_deleted_file_is_gone_from_record_list_and_ends(store: Store) -> None:
    await store.add_file(file(expires_at=NOW))
    assert await store.expired_files(NOW - 1, 9) == []
    assert await store.expired_files(NOW, 9) == [file(expires_at=NOW)]
    await store.delete_file("file-1")
    await store.delete_file("file-1")
    assert await store.file("file-1") is None
    assert await store.files("", None, 9) == await store.expired_files(NOW, 9) == []


async def test_expired_files_come_by_their_end_and_in_pages(store: Store) -> None:
    for number, end in ((3, NOW), (2, NOW - 5), (1, NOW), (4, NOW + 1)):
        await store.add_file(file(number, expires_at=end))
    assert [each.id for each in await store.expired_files(NOW, 2)] == ["file-2", "file-1"]
    assert [each.id for each in await store.expired_files(NOW, 2, 2)] == ["file-3"]


async def test_batches_of_a_tenant_come_newest_first_in_pages(store: Store) -> None:
    for number in range(4):
        await store.add_batch(batch(number, "ours"))
    await store.add_batch(batch(9, "theirs"))
    page = await store.batches("ours", None, 3)
    assert [each.id for each in page] == ["batch_3", "batch_2", "batch_1"]
    assert [each.id for each in await store.batches("ours", page[-1], 3)] == ["batch_0"]


async def test_batches_that_are_over_come_by_the_end_of_their_window(store: Store) -> None:
    for number in (2, 1, 3, 4):
        await store.add_batch(batch(number, "ours", expires_at=NOW + number))
        if number != 4:
            await store.write(
                replace(batch(number, "ours"), status=Status.FAILED, expires_at=NOW + number)
            )
    over = await store.ended_batches(NOW + 2, 9)
    assert [each.id for each in over] == ["batch_1", "batch_2"]
    assert [each.id for each in await store.ended_batches(NOW + 9, 1)] == ["batch_1"]
    newest = await store.batches("ours", None, 9, 2)
    assert [each.id for each in newest] == ["batch_2", "batch_1"]
    for number in (1, 4):
        await store.delete_batch(f"batch_{number}")
    assert [each.id for each in await store.ended_batches(NOW + 9, 9)] == ["batch_2", "batch_3"]
    assert len(await store.batches("ours", None, 9)) == 3


async def test_a_write_at_another_revision_conflicts(store: Store) -> None:
    await store.add_batch(batch())
    read = await store.batch("batch_1")
    assert read == batch()
    written = await store.write(replace(batch(), status=Status.FAILED))
    assert await store.batch("batch_1") == written
    with pytest.raises(StateConflict):
        await store.write(replace(batch(), status=Status.IN_PROGRESS))


async def test_an_ended_batch_is_not_active(store: Store) -> None:
    await store.add_batch(batch(2))
    await store.add_batch(batch(1, expires_at=NOW + 10**6))
    assert [each.id for each in await store.active()] == ["batch_2", "batch_1"]
    await store.write(replace(batch(2), status=Status.FAILED))
    assert [each.id for each in await store.active()] == ["batch_1"]


async def test_a_claim_is_of_one_owner_until_it_ends(store: Store) -> None:
    await store.add_batch(batch())
    assert await store.claim("batch_1", "one", FOREVER)
    assert not await store.claim("batch_1", "two", FOREVER)
    assert await store.claim("batch_1", "one", 0.3)
    await asyncio.sleep(0.4)
    assert await store.claim("batch_1", "two", FOREVER)


async def test_lines_are_leased_once_and_in_order(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(3))
    await store.add_lines("batch_1", lines(5))  # a validation that began again
    assert await store.lease("batch_1", "one", 2, FOREVER) == lines(2)
    assert await leased(store, "two", 9) == [3, 4, 5]
    assert await leased(store, "three", 9) == []


async def test_lines_are_leased_in_progress_only(store: Store) -> None:
    await store.add_batch(batch())
    await store.add_lines("batch_1", lines(2))
    assert await leased(store, "one", 9) == []


async def test_a_lease_that_ends_gives_the_line_to_another_owner(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(2))
    assert await leased(store, "dead", 1, 0.3) == [1]
    await asyncio.sleep(0.4)
    assert await leased(store, "alive", 9, 0.3) == [1, 2]


async def test_a_renewed_lease_lasts_and_a_lost_one_cannot_be_renewed(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(2))
    assert await leased(store, "one", 2, 1.4) == [1, 2]
    await asyncio.sleep(1.5)
    await store.renew("batch_1", "one", lines(1), FOREVER)
    assert await leased(store, "two", 2, 1.4) == [2]
    await asyncio.sleep(1.5)
    await store.renew("batch_1", "one", lines(2), FOREVER)
    assert await leased(store, "three", 2, 1.4) == [2]


async def test_a_released_line_is_leased_at_once(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(2))
    assert await leased(store, "one", 2) == [1, 2]
    await store.release("batch_1", "other", lines(2))
    assert await leased(store, "two", 2) == []
    await store.release("batch_1", "one", lines(1))
    assert await leased(store, "two", 2) == [1]


async def test_the_first_answer_of_a_line_stays(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(3))
    await store.set_total("batch_1", 3)
    await leased(store, "one", 2)
    assert await store.answer("batch_1", [answer(1), answer(2, ok=False)]) == [1, 2]
    assert await store.answer("batch_1", [answer(2, "late"), answer(3, "late")]) == [3]
    kept = await store.answers("batch_1", range(1, 10))
    assert kept == [answer(1), answer(2, ok=False), answer(3, "late")]
    assert await store.answers("batch_1", [2]) == [answer(2, ok=False)]
    assert await store.answers("batch_1", [1, 3]) == [answer(1), answer(3, "late")]
    assert await store.answers("batch_1", []) == []
    assert await store.counts("batch_1") == Counts(3, 2, 1)
    assert await leased(store, "two", 9, 0.001) == []


async def test_redis_is_sent_the_numbers_of_lines_not_those_of_blank_lines_in_between(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[str]] = []
    hmget = Redis.hmget

    def recording(client: Any, name: str, keys: list[str]) -> Any:
        sent.append(keys)
        return hmget(client, name, keys)

    payloads = Payloads(tmp_path / "payloads")
    payloads.prepare()
    row = jsonl([request_line("a")])
    part = payloads.part()
    part.write(row + b"\n" * 100_000 + row)
    part.commit("file-in")
    store = RedisStore(redis_server.url, str(tmp_path))
    await store.open()
    await store.add_batch(in_progress(in_progress_at=NOW))
    batch = await store.write(transitions.finalizing(in_progress(in_progress_at=NOW), NOW))
    monkeypatch.setattr(Redis, "hmget", recording)
    await Finalizer(store, payloads, 30).finalize(batch)
    await store.close()
    numbers = {key for keys in sent for key in keys if key.isdecimal()}
    assert numbers == {"1", "100002"}
    assert max(map(len, sent)) <= 500


async def test_a_batch_that_is_cancelled_takes_no_answer(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(1))
    assert await leased(store, "one", 1) == [1]
    await store.write(replace(in_progress(), status=Status.CANCELLING))
    assert await store.answer("batch_1", [answer(1)]) == []
    assert await store.answers("batch_1", [1]) == []
    assert await leased(store, "one", 1) == []


async def test_forgotten_lines_leave_the_record_and_its_counts(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(1))
    await store.set_total("batch_1", 1)
    await store.answer("batch_1", [answer(1)])
    await store.forget_lines("batch_1")
    await store.renew("batch_1", "one", lines(1), FOREVER)
    assert await store.answers("batch_1", [1]) == []
    assert await store.counts("batch_1") == Counts(1, 1, 0)


async def test_forgotten_lines_leave_the_claim(store: Store) -> None:
    await store.add_batch(in_progress())
    assert await store.claim("batch_1", "one", FOREVER)
    await store.forget_lines("batch_1")
    assert not await store.claim("batch_1", "two", FOREVER)


async def test_many_owners_lease_every_line_once(store: Store) -> None:
    await store.add_batch(in_progress())
    await store.add_lines("batch_1", lines(500))
    taken: list[int] = []

    async def owner(name: str) -> None:
        while numbers := await leased(store, name, 7):
            taken.extend(numbers)
            assert await store.answer("batch_1", [answer(each) for each in numbers]) == numbers

    await asyncio.gather(*(owner(str(number)) for number in range(8)))
    assert sorted(taken) == list(range(1, 501))


async def test_sqlite_gives_the_leases_of_an_ended_process_back(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    await first.open()
    await first.add_batch(in_progress())
    await first.add_lines("batch_1", lines(2))
    assert await leased(first, "one", 1) == [1]
    await first.close()
    second = SqliteStore(tmp_path)
    await second.open()
    assert await leased(second, "two", 9) == [1, 2]
    await second.close()


async def test_sqlite_that_fails_to_open_can_be_opened_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_SECONDS", 0.2)
    (tmp_path / "store.sqlite").write_bytes(b"this is no database" * 100)
    store = SqliteStore(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="not a database"):
            await store.open()
    (tmp_path / "store.sqlite").unlink()
    await store.open()
    assert await store.active() == []
    await store.close()


async def test_what_redis_receives_again_changes_nothing(redis_server: RedisServer) -> None:
    """The client sends a script again if its reply is lost."""
    store = RedisStore(redis_server.url, "sent-again")
    await store.open()
    await store.add_batch(batch())
    started = in_progress()
    assert await store.write(started) == await store.write(started) == replace(started, revision=1)
    await store.add_lines("batch_1", lines(1))
    await store.set_total("batch_1", 1)
    assert await store.answer("batch_1", [answer(1)]) == [1]
    await store.add_batch(batch())
    assert await store.batch("batch_1") == replace(started, revision=1)
    assert await store.counts("batch_1") == Counts(1, 1, 0)
    with pytest.raises(StateConflict):
        await store.write(batch())
    await store.close()


async def test_redis_that_is_away_is_unavailable_and_keeps_what_it_took(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    store = RedisStore(server.url, "team-a")
    try:
        await store.open()
        await store.add_batch(in_progress())
        await store.add_lines("batch_1", lines(3))
        assert await leased(store, "one", 1, 0.3) == [1]
        assert await store.answer("batch_1", [answer(2)]) == [2]
        server.kill()
        with pytest.raises(StoreUnavailable):
            await store.batch("batch_1")
        server.start()
        assert await store.batch("batch_1") == in_progress()
        await asyncio.sleep(0.4)
        assert await leased(store, "two", 9, 0.3) == [1, 3]
    finally:
        await store.close()
        server.kill()
