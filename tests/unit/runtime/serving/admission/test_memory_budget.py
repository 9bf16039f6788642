"""The memory of requests: what counts, and until when."""

import asyncio
import threading
import weakref
from typing import Any

import pytest

from penstock_runtime.errors import BadInput, MemoryFull, TooLarge
from penstock_runtime.serving.admission.memory_budget import MemoryBudget
from penstock_runtime.serving.admission.ticket import Ticket


def budget(max_bytes: int = 100) -> MemoryBudget:
    return MemoryBudget(max_bytes, lambda: 1.0)


class Work:
    """Work in a thread that ends when a test opens it."""

    def __init__(self) -> None:
        self.runs = 0
        self.open = threading.Event()

    def __call__(self, result: int) -> int:
        self.runs += 1
        assert self.open.wait(10)
        if result < 0:
            raise ValueError(result)
        return result


async def begun(memory: MemoryBudget, ticket: Ticket, work: Work, result: int) -> asyncio.Task[int]:
    """Return a request of 60 bytes whose work is in a thread."""
    memory.hold(ticket, 60)
    task = asyncio.create_task(memory.holding(ticket).in_thread(work, result))
    await asyncio.sleep(0.05)
    return task


@pytest.mark.parametrize("result", [3, -1])
async def test_a_request_holds_its_bytes_after_work_in_a_thread(result: int) -> None:
    memory, ticket, work = budget(), Ticket("a", 0.0), Work()
    task = await begun(memory, ticket, work, result)
    assert memory.held_bytes == 60
    work.open.set()
    await asyncio.wait([task])
    assert (ticket.bytes, memory.held_bytes) == (60, 60)
    memory.release(ticket)
    assert memory.held_bytes == 0


@pytest.mark.parametrize("result", [3, -1])
@pytest.mark.parametrize("departs", ["before its task sees it", "after"])
async def test_the_bytes_of_a_request_that_left_are_held_until_its_thread_ends(
    until: Any, departs: str, result: int
) -> None:
    memory, ticket, work = budget(), Ticket("a", 0.0), Work()
    task = await begun(memory, ticket, work, result)
    task.cancel()
    if departs == "after":
        await asyncio.wait([task])
    memory.release(ticket)
    await asyncio.wait([task])
    assert memory.held_bytes == 60
    with pytest.raises(MemoryFull):
        memory.hold(Ticket("b", 0.0), 60)
    work.open.set()
    await until(lambda: memory.held_bytes == 0)
    assert ticket.bytes == 0


async def test_work_that_waits_for_a_thread_is_skipped_once_its_request_left(
    until: Any,
) -> None:
    blocker = threading.Event()
    loop = asyncio.get_running_loop()
    threads = [loop.run_in_executor(None, blocker.wait, 10) for _ in range(40)]
    memory, ticket, work = budget(), Ticket("a", 0.0), Work()
    task = await begun(memory, ticket, work, 3)
    task.cancel()
    await asyncio.wait([task])
    memory.release(ticket)
    assert memory.held_bytes == 60
    blocker.set()
    await asyncio.gather(*threads)
    await until(lambda: memory.held_bytes == 0)
    assert work.runs == 0


def test_an_answer_grows_beyond_what_others_left_while_newcomers_are_rejected() -> None:
    memory, running, other = budget(), Ticket("a", 0.0), Ticket("b", 0.0)
    memory.hold(running, 10)
    memory.hold(other, 90)
    memory.grow(running, 50)
    assert (running.bytes, memory.held_bytes) == (60, 150)
    with pytest.raises(MemoryFull, match="other requests hold 150 of 100 bytes"):
        memory.hold(Ticket("c", 0.0), 1)
    memory.release(running)
    assert memory.held_bytes == 90


def test_growing_answers_hold_the_limit_alone_and_twice_the_limit_together() -> None:
    memory, tickets = budget(), [Ticket(name, 0.0) for name in "abc"]
    for ticket in tickets:
        memory.hold(ticket, 30)
        memory.grow(ticket, 30)
        memory.hold_unread(-30)  # room for the next one
    memory.hold_unread(90)
    with pytest.raises(TooLarge, match="this request needs 101 bytes"):
        memory.grow(tickets[0], 41)
    memory.grow(tickets[0], 20)
    with pytest.raises(MemoryFull, match="other requests hold 140 of 200 bytes"):
        memory.grow(tickets[1], 1)
    memory.hold_unread(60)
    memory.grow(tickets[2], 0)
    assert [ticket.bytes for ticket in tickets] == [80, 60, 60]


class Body(bytearray):
    """A body that can be watched."""


def reject(body: Body) -> None:
    raise BadInput(f"{len(body)} bytes of invalid JSON")


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_request_that_a_thread_rejected(until: Any) -> None:
    kept = list[weakref.ref[Body]]()

    async def serve() -> None:
        body = Body(1000)
        kept.append(weakref.ref(body))
        await budget().holding(Ticket("a", 0.0)).in_thread(reject, body)

    with pytest.raises(BadInput):
        await serve()
    await until(lambda: kept[0]() is None, 5.0)
