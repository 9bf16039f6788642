"""A pod of a group is stopped before the group serves: no other pod fails by it. Connections are real, ranks are fakes."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from penstock_runtime.engine.link.local_ranks import LocalRanks
from penstock_runtime.engine.link.pods import leader, worker
from penstock_runtime.engine.link.pods.leader import WorkerPods
from penstock_runtime.engine.link.pods.worker import WorkerRanks
from penstock_runtime.engine.link.ranks import RankedLink
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import PodSeat
from penstock_runtime.engine.rendezvous import StoreAddress, write_store_address
from tests.unit.runtime.engine.link.rank_links import RankLink

PODS = 3


class Loading:
    """Takes the place of the ranks of a worker, which load without an end, or fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = asyncio.Event()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, deliver: Callable[[Any], None], lose: Callable[[str], None]) -> list[Any]:
        del deliver, lose
        self.started.set()
        await self.failed
        return []

    async def close(self) -> None:
        """Return: they have ended."""

    def kill(self) -> None:
        """Return: they have ended."""


class FollowingRanks:
    """One worker pod."""

    def __init__(self, index: int, port: int, folder: Path) -> None:
        folder.mkdir()
        self.stop = asyncio.Event()
        self.ranks = Loading(folder)
        self.ended = asyncio.create_task(
            WorkerRanks(
                PodSeat(index, PODS, "127.0.0.1", port),
                f"chat-0-{index}",
                dict,
                cast("LocalRanks", self.ranks),
                lambda: None,
            ).run(self.stop, 1.0)
        )

    async def exits_with_0(self) -> None:
        async with asyncio.timeout(20):
            await self.ended


class LeadingRanks:
    """The leader, whose load SIGTERM cancels."""

    def __init__(self, port: int, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.stops = 0
        self.workers = WorkerPods(
            PodSeat(0, PODS, "127.0.0.1", port), "127.0.0.1", dict, self._stop
        )
        rank = RankLink()
        local = LocalRanks([cast("Any", rank)], lambda _, text: text, folder)
        link = RankedLink(cast("Any", rank), local, self.workers)
        self.starting = asyncio.create_task(link.start(lambda _: None))

    def _stop(self) -> None:
        self.stops += 1
        self.starting.cancel()

    async def stopped(self) -> None:
        self.starting.cancel()
        await asyncio.wait({self.starting})

    async def has(self, caplog: pytest.LogCaptureFixture, *lines: str) -> None:
        """Wait until these lines are in the log."""
        async with asyncio.timeout(20):
            while not all(line in caplog.text for line in lines):  # noqa: ASYNC110 - no event is set
                await asyncio.sleep(0.01)


class Group:
    """Starts the pods of a group of three; all end with the test."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = int(probe.getsockname()[1])
        self._folder = folder
        self.tasks: list[asyncio.Task[Any]] = []

    def lead(self) -> LeadingRanks:
        pod = LeadingRanks(self._port, self._next_folder())
        self.tasks.append(pod.starting)
        return pod

    def follow(self, index: int) -> FollowingRanks:
        pod = FollowingRanks(index, self._port, self._next_folder())
        self.tasks.append(pod.ended)
        return pod

    def _next_folder(self) -> Path:
        return self._folder / str(len(self.tasks))


@pytest.fixture
async def group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Group]:
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(leader, "use_interface_of", lambda _: None)
    monkeypatch.setattr(worker, "use_interface_of", lambda _: None)
    caplog.set_level("INFO")
    pods = Group(tmp_path)
    yield pods
    for task in pods.tasks:
        task.cancel()
    await asyncio.gather(*pods.tasks, return_exceptions=True)


async def test_the_leader_waits_for_the_replacement_of_a_worker_that_is_stopped(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    first, gone = group.lead(), group.follow(1)
    await first.has(caplog, "pod 1 (chat-0-1) has joined")
    gone.stop.set()
    await gone.exits_with_0()
    await first.has(caplog, "pod 1 (chat-0-1) has left")
    caplog.clear()
    others = [group.follow(index) for index in (1, 2)]
    await first.has(caplog, "pod 1 (chat-0-1) has joined", "pod 2 (chat-0-2) has joined")
    assert not first.stops
    write_store_address(first.folder, StoreAddress("127.0.0.1", 29501))
    for other in others:
        async with asyncio.timeout(20):
            await other.ranks.started.wait()


async def test_a_worker_that_waits_joins_the_next_leader(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    waits, first = group.follow(1), group.lead()
    await first.has(caplog, "pod 1 (chat-0-1) has joined")
    await first.stopped()
    caplog.clear()
    await group.lead().has(caplog, "pod 1 (chat-0-1) has joined")
    assert not waits.ended.done()


async def test_a_worker_that_is_stopped_before_the_ranks_start_leaves_the_others_waiting(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    first = group.lead()
    gone, waits = group.follow(1), group.follow(2)
    await first.has(caplog, "pod 1 (chat-0-1) has joined", "pod 2 (chat-0-2) has joined")
    gone.stop.set()
    await gone.exits_with_0()
    await asyncio.wait({first.starting}, timeout=20)
    assert first.stops == 1
    caplog.clear()
    await group.lead().has(caplog, "pod 2 (chat-0-2) has joined")
    assert not waits.ended.done()


async def loading(group: Group) -> tuple[LeadingRanks, FollowingRanks, FollowingRanks]:
    """Return a group whose ranks load."""
    first = group.lead()
    others = group.follow(1), group.follow(2)
    write_store_address(first.folder, StoreAddress("127.0.0.1", 29501))
    async with asyncio.timeout(20):
        for other in others:
            await other.ranks.started.wait()
    return first, *others


async def test_a_leader_that_is_stopped_while_ranks_load_ends_its_workers_without_an_error(
    group: Group,
) -> None:
    first, *others = await loading(group)
    await first.stopped()
    for other in others:
        await other.exits_with_0()


async def test_a_worker_that_is_stopped_while_ranks_load_ends_the_group_without_an_error(
    group: Group,
) -> None:
    first, gone, other = await loading(group)
    gone.stop.set()
    other.ranks.failed.set_exception(ModelLoadFailed("rank 2 of 3: Connection closed by peer"))
    await gone.exits_with_0()
    await other.exits_with_0()
    assert first.stops == 1


async def test_ranks_that_fail_still_end_the_workers_with_the_words(group: Group) -> None:
    _, failing, other = await loading(group)
    failing.ranks.failed.set_exception(ModelLoadFailed("rank 1 of 3: no memory"))
    async with asyncio.timeout(20):
        with pytest.raises(ModelLoadFailed, match="rank 1 of 3: no memory"):
            await other.ended
