"""How `Supervisor` shares its work between batches: none waits for the long work of another tenant's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_batches import transitions
from penstock_batches.errors import StoreUnavailable
from penstock_batches.records import BatchJob, Counts, Status
from penstock_batches.service import stopped
from penstock_batches.store.base import Store
from penstock_batches.store.sqlite import SqliteStore
from penstock_batches.work import supervisor
from penstock_batches.work.supervisor import Supervisor
from tests.support.batches.served import until
from tests.unit.batches.values import NOW, batch


class ScriptedWork:
    """Validates nothing before `thaw`, and finalizes at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.thaw = asyncio.Event()

    async def validate(self, job: BatchJob) -> None:
        """Begin, and wait for `thaw`."""
        self.begun.append(job.id)
        await self.thaw.wait()
        await self._store.write(transitions.started(job, "demo", (), NOW))

    async def finalize(self, job: BatchJob) -> None:
        """End the batch; the store is away for the one that is named so."""
        if job.id == "batch_away":
            raise StoreUnavailable("away")
        await self._store.write(transitions.ended(job, None, None, Counts(), NOW))
        self.ended.append(job.id)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store on SQLite."""
    opened = SqliteStore(tmp_path)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything happen in one look."""
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 60.0)


@asynccontextmanager
async def supervised(store: Store, work: ScriptedWork) -> AsyncIterator[Supervisor]:
    pools: Any = SimpleNamespace(listed=True)
    webhooks: Any = SimpleNamespace(call=lambda _ended: None)
    scripted: Any = work
    supervising = Supervisor(store, pools, scripted, scripted, webhooks, "owner", lambda: None)
    running = asyncio.create_task(supervising.run())
    try:
        yield supervising
    finally:
        await stopped([running])
        await stopped(supervising.tasks)


def finalizing(number: int, tenant: str) -> BatchJob:
    return batch(number, tenant, status=Status.FINALIZING)


async def test_a_tenant_whose_batches_take_long_delays_no_other(store: Store) -> None:
    work = ScriptedWork(store)
    for number in range(5):
        await store.add_batch(batch(number, "long"))
    await store.add_batch(finalizing(9, "other"))
    async with supervised(store, work):
        await until(lambda: work.ended == ["batch_9"], 10)
        await until(lambda: len(work.begun) == 2, 10)
        assert not await store.claim("batch_0", "another replica", 1.0)
        work.thaw.set()
        await until(lambda: len(work.begun) == 5, 10)


async def test_each_batch_is_worked_on_once_without_another_look(store: Store) -> None:
    work = ScriptedWork(store)
    for number in range(12):
        await store.add_batch(finalizing(number, f"tenant-{number % 2}"))
    async with supervised(store, work):
        await until(lambda: len(work.ended) == 12, 10)
    assert len(set(work.ended)) == 12
    assert await store.active() == []


async def test_the_tenant_that_waited_longest_is_next(store: Store) -> None:
    work = ScriptedWork(store)
    for number, tenant in enumerate(["a"] * 4 + ["b"] * 4 + ["c"]):
        await store.add_batch(batch(number, tenant))
    async with supervised(store, work):
        await until(lambda: len(work.begun) == 3, 10)
        assert set(work.begun) == {"batch_0", "batch_4", "batch_8"}


async def test_the_last_place_is_for_a_tenant_without_work(store: Store) -> None:
    work = ScriptedWork(store)
    for number, tenant in enumerate(["a"] * 2 + ["b"] * 2):
        await store.add_batch(batch(number, tenant))
    await store.add_batch(finalizing(9, "later"))
    async with supervised(store, work):
        await until(lambda: work.ended == ["batch_9"], 10)
        await until(lambda: len(work.begun) == 3, 10)


async def test_a_batch_whose_work_the_store_refuses_stops_no_later_one(store: Store) -> None:
    work = ScriptedWork(store)
    await store.add_batch(batch(0, id="batch_away", status=Status.FINALIZING))
    await store.add_batch(finalizing(9, ""))
    async with supervised(store, work):
        await until(lambda: work.ended == ["batch_9"], 10)


async def test_a_batch_that_changed_while_it_waited_is_left_to_the_next_look(store: Store) -> None:
    work = ScriptedWork(store)
    for number in range(3):
        await store.add_batch(batch(number))
    async with supervised(store, work):
        await until(lambda: len(work.begun) == 2, 10)
        await store.write(transitions.cancelling(batch(2), NOW))
        work.thaw.set()
        await asyncio.sleep(0.5)
        assert sorted(work.begun) == ["batch_0", "batch_1"]


async def test_work_that_the_service_stops_gives_its_claim_back(store: Store) -> None:
    work = ScriptedWork(store)
    for number in range(3):
        await store.add_batch(batch(number))
    async with supervised(store, work) as supervising:
        await until(lambda: sorted(work.begun) == ["batch_0", "batch_1"], 10)
    assert not supervising.tasks
    assert await store.claim("batch_0", "another replica", 1.0)
