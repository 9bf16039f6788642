"""What is reported of ranks that end while the model loads, and later; the processes are fakes."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from penstock_runtime.engine.link.local_ranks import LocalRanks
from penstock_runtime.engine.link.ranks import RankedLink, named
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import RankSeat
from tests.support.virtual_time import virtual_time
from tests.unit.runtime.engine.link.rank_links import RankLink

SHOT = "its process was killed by SIGKILL (out of memory?)"
CUT_OFF = "the model did not load: RuntimeError: Connection closed by peer [127.0.0.1]:4711"

OTHER = "the model did not load: the engine's process was killed by SIGKILL (out of memory?)"


class TwoRanks:
    """A link to two ranks, and what it delivers."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = links = RankLink(), RankLink()
        seats = [RankSeat(rank, 2, 1, folder, 1) for rank in (0, 1)]
        local = LocalRanks(cast("Any", links), partial(named, seats, "pod"), folder)
        self.link = RankedLink(cast("Any", self.first), local)
        self.delivered: list[Any] = []
        self.news = asyncio.Event()
        self.starting = asyncio.create_task(self.link.start(self._deliver))

    def _deliver(self, message: Any) -> None:
        self.delivered.append(message)
        self.news.set()

    async def words(self) -> str:
        """Return why the load failed."""
        async with asyncio.timeout(30):
            with pytest.raises(ModelLoadFailed) as failure:
                await self.starting
        return str(failure.value)


@pytest.fixture
async def pair(tmp_path: Path) -> TwoRanks:
    virtual_time(asyncio.get_running_loop())
    two = TwoRanks(tmp_path)
    await asyncio.sleep(0.01)  # until both have started
    return two


async def after(seconds: float, act: Callable[[], None]) -> None:
    await asyncio.sleep(seconds)
    act()


async def test_a_rank_that_dies_while_rank_0_is_blocked_fails_the_load_with_its_words(
    pair: TwoRanks,
) -> None:
    """A collective of NCCL waits for a dead peer."""
    pair.second.load()
    await after(0.01, lambda: pair.second.die(SHOT))
    assert await pair.words() == f"rank 1 of 2: {SHOT}"
    await asyncio.sleep(0.05)
    assert pair.delivered == [], "an engine that never loaded does not die"
    assert pair.first.killed


@pytest.mark.parametrize("gap", [-0.05, 0.05], ids=["rank 0 is first", "the cause is first"])
async def test_a_rank_that_dies_is_named_where_rank_0_fails_by_it(
    pair: TwoRanks, gap: float
) -> None:
    """A collective of gloo ends with its peer, perhaps before the peer is reaped."""
    pair.second.load()
    await asyncio.gather(
        after(0.1, lambda: pair.second.die(SHOT)),
        after(0.1 + gap, lambda: pair.first.fail(CUT_OFF)),
    )
    assert await pair.words() == f"rank 1 of 2: {SHOT}; rank 0 of 2: {CUT_OFF}"
    assert pair.delivered == []


async def test_ranks_that_do_not_load_are_all_named(pair: TwoRanks) -> None:
    pair.first.fail(CUT_OFF)
    await after(0.05, lambda: pair.second.fail(OTHER))
    assert await pair.words() == f"rank 0 of 2: {CUT_OFF}; rank 1 of 2: {OTHER}"


async def test_a_reason_that_all_ranks_have_is_reported_once(pair: TwoRanks) -> None:
    pair.second.fail("4 ranks do not divide the 2 heads")
    pair.first.fail("4 ranks do not divide the 2 heads")
    assert await pair.words() == "rank 0 of 2: 4 ranks do not divide the 2 heads"


async def test_a_rank_that_dies_as_the_last_one_loads_fails_the_load(pair: TwoRanks) -> None:
    pair.second.load()
    await asyncio.sleep(0.01)
    pair.second.die(SHOT)
    pair.first.load("info")
    assert await pair.words() == f"rank 1 of 2: {SHOT}"


async def test_a_rank_that_dies_after_the_load_is_the_death_of_the_engine(pair: TwoRanks) -> None:
    pair.second.load()
    pair.first.load("info")
    assert await cast("Any", pair.starting) == "info"
    pair.second.die(SHOT)
    pair.first.die("RuntimeError: Connection closed by peer")
    async with asyncio.timeout(30):
        await pair.news.wait()
    words = f"rank 1 of 2: {SHOT}; rank 0 of 2: RuntimeError: Connection closed by peer"
    assert pair.delivered == [EngineDied(words)]
    assert pair.second.killed
