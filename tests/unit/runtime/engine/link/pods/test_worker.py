"""The ranks of a worker pod: what ends them, and whether it is a loss."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from penstock_runtime.engine.link.local_ranks import LocalRanks
from penstock_runtime.engine.link.pods import worker
from penstock_runtime.engine.link.pods.connection import PodConnection
from penstock_runtime.engine.link.pods.messages import (
    Close,
    Closing,
    Lost,
    Meet,
    PodMessage,
    RanksLoaded,
)
from penstock_runtime.engine.link.pods.worker import GroupLost, WorkerRanks
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import PodSeat


class Ranks:
    """Takes the place of the rank processes: loaded at once, lost by a call, and slow to end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lose: Callable[[str], None]

    async def start(self, deliver: Callable[[Any], None], lose: Callable[[str], None]) -> list[Any]:
        del deliver
        self.lose = lose
        return []

    async def close(self) -> None:
        """Return later than a loss ends the pod."""
        await asyncio.sleep(3 * worker.RETRY_SECONDS)

    def kill(self) -> None:
        """Return: they have ended."""


class Leader:
    """The leader's end of the connection."""

    def __init__(self) -> None:
        self.connection: PodConnection
        self.received: asyncio.Queue[PodMessage] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection = PodConnection(reader, writer)
        await self.connection.listen(self.received.put_nowait)
        self.connection.close()

    async def next(self, kind: type[PodMessage]) -> PodMessage:
        """Return the next message of this kind."""
        async with asyncio.timeout(10):
            while not isinstance(message := await self.received.get(), kind):
                pass
            return message


@pytest.fixture
async def group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Leader, Ranks, "asyncio.Task[None]"]]:
    """A worker whose ranks are loaded."""
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.2)
    leader, ranks = Leader(), Ranks(tmp_path)
    server = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    seat = PodSeat(1, 2, "127.0.0.1", port)
    following = WorkerRanks(seat, "chat-0-1", dict, cast("LocalRanks", ranks), lambda: None)
    task = asyncio.create_task(following.run(asyncio.Event(), 1.0))
    async with server:
        await leader.received.get()
        leader.connection.send(Meet(29501))
        await leader.next(RanksLoaded)
        yield leader, ranks, task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        leader.connection.close()


async def test_a_rank_that_ends_before_the_end_of_its_leader_is_read_is_no_loss(
    group: tuple[Leader, Ranks, "asyncio.Task[None]"],
) -> None:
    """The leader's rank 0 may be gone, and with it this pod's ranks, while `Close` waits in the socket."""
    leader, ranks, task = group
    ranks.lose("rank 1 of 2: Connection closed by peer")
    leader.connection.send(Close())
    await leader.next(Closing)
    async with asyncio.timeout(10):
        await task


async def test_a_rank_that_ends_without_an_end_of_the_leader_ends_the_pod(
    group: tuple[Leader, Ranks, "asyncio.Task[None]"],
) -> None:
    leader, ranks, task = group
    ranks.lose("rank 1 of 2: its process was killed by SIGKILL")
    assert await leader.next(Lost) == Lost("rank 1 of 2: its process was killed by SIGKILL")
    async with asyncio.timeout(10):
        with pytest.raises(GroupLost, match="killed by SIGKILL"):
            await task


async def test_ranks_that_cannot_be_started_are_reported_with_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.2)
    leader = Leader()
    server = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ranks = cast("LocalRanks", Unstartable(tmp_path))
    following = WorkerRanks(PodSeat(1, 2, "127.0.0.1", port), "c", dict, ranks, lambda: None)
    async with server:
        task = asyncio.create_task(following.run(asyncio.Event(), 1.0))
        await leader.received.get()
        leader.connection.send(Meet(29501))
        assert await leader.next(Lost) == Lost("OSError: no process left")
        async with asyncio.timeout(10):
            with pytest.raises(ModelLoadFailed, match="no process left"):
                await task
        leader.connection.close()


class Unstartable(Ranks):
    """No process can be started."""

    async def start(self, deliver: Callable[[Any], None], lose: Callable[[str], None]) -> list[Any]:
        del deliver, lose
        raise OSError("no process left")
