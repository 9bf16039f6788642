"""The places of a pool, and those of its tenants."""

import asyncio

from penstock_batches.dispatch.gate import PoolGate
from penstock_batches.dispatch.outcome import Refuser
from penstock_batches.dispatch.window import START


async def test_a_tenant_that_pauses_leaves_the_places_to_others() -> None:
    pool = PoolGate(int(START))
    first, second = pool.tenant("first"), pool.tenant("second")
    first.held = int(START)
    assert second.room == 0
    first.rejected(Refuser.KEY, 600)
    assert (first.room, second.room) == (0, START)
    first.in_flight = 1
    assert second.room == START - 1
    assert pool.window.size == START


async def test_a_pool_without_room_pauses_every_tenant() -> None:
    pool = PoolGate(8)
    pool.tenant("first").rejected(Refuser.POOL, 600)
    assert pool.tenant("first").room == pool.tenant("second").room == 0


async def test_lines_that_pause_take_no_place_and_are_bounded() -> None:
    pool = PoolGate(6)
    first, second = pool.tenant("first"), pool.tenant("second")
    first.held = 5
    pauses = [asyncio.create_task(first.sleep(600)) for _ in range(5)]
    await asyncio.sleep(0)
    assert (first.room, second.room) == (1, START)
    first.held += 1
    assert (first.room, second.room) == (1, START - 1)
    for pause in pauses:
        pause.cancel()
    await asyncio.gather(*pauses, return_exceptions=True)
    assert (first.room, second.room) == (0, 0)


async def test_tenants_share_the_limit_of_a_pool() -> None:
    pool = PoolGate(1)
    first, second = pool.tenant("first"), pool.tenant("second")
    async with first.place():
        first.held = 1
        assert (pool.in_flight, first.room, second.room) == (1, 0, 0)
    first.held = 0
    async with second.place():
        assert (first.in_flight, second.in_flight, pool.in_flight) == (0, 1, 1)


async def test_a_tenant_without_work_is_forgotten() -> None:
    pool = PoolGate(8)
    idle, busy, next_up = (pool.tenant(name) for name in ("idle", "busy", "next"))
    busy.held = 1
    pool.keep({"next"})
    assert pool.tenant("busy") is busy
    assert pool.tenant("next") is next_up
    assert pool.tenant("idle") is not idle
