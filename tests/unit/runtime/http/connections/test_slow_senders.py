"""Clients that dribble their bodies hold no place in the queue: honest ones are served, and rejected only when it is full."""

import asyncio
from typing import Any

import pytest

from tests.unit.runtime.conftest import LIMITS
from tests.unit.runtime.http.fast_path.test_fast_path import connected, one_answer
from tests.unit.runtime.http.wire_cases import GOOD

SHALLOW = LIMITS.model_copy(update={"max_queue_depth": 2})
SLOW_SENDERS = 10
HEAD_END = GOOD.index(b"\r\n\r\n") + 4
CUT = HEAD_END + 5


async def slow_senders(pod: Any, until: Any) -> list[Any]:
    """Return connections that have each sent a head and some bytes of its body."""
    senders = [await connected(pod) for _ in range(SLOW_SENDERS)]
    for _, writer in senders:
        writer.write(GOOD[:CUT])
    await until(lambda: pod.pod.counters.received == SLOW_SENDERS)
    return senders


@pytest.mark.parametrize("fast", [True, False])
async def test_as_many_slow_senders_as_the_queue_is_deep_do_not_block_others(
    start: Any, until: Any, fast: bool
) -> None:
    pod = await start(SHALLOW, fast_path=fast)
    slow = await slow_senders(pod, until)
    reader, writer = await connected(pod)
    for _ in range(3):
        writer.write(GOOD)
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    writer.close()
    for reader, writer in slow:
        writer.write(GOOD[CUT:])
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()
    assert pod.pod.counters.settled() == pod.pod.counters.received == SLOW_SENDERS + 3
    await until(pod.pod.admission.empty)


async def test_bodies_that_complete_together_take_no_more_places_than_there_are(
    start: Any, until: Any
) -> None:
    pod = await start(SHALLOW)
    pod.model.gate.clear()
    running_reader, running_writer = await connected(pod)
    running_writer.write(GOOD)
    await until(lambda: pod.pod.admission.load().running == 1)
    pod.pod.counters.received = 0
    slow = await slow_senders(pod, until)
    for _, writer in slow:
        writer.write(GOOD[CUT:])
    await until(lambda: pod.pod.counters.rejected["QueueFull"] == SLOW_SENDERS - 2)
    assert pod.pod.admission.load().waiting == 2
    reader, writer = await connected(pod)
    writer.write(GOOD[:HEAD_END].replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    rejection = await one_answer(reader)
    assert rejection.startswith(b"HTTP/1.1 429"), "rejected before its body is read"
    writer.close()
    pod.model.gate.set()
    answers = await asyncio.gather(*(one_answer(reader) for reader, _ in slow))
    assert sorted(answer[9:12] for answer in answers) == [b"200"] * 2 + [b"429"] * (
        SLOW_SENDERS - 2
    )
    assert (await one_answer(running_reader)).startswith(b"HTTP/1.1 200")
    for _, writer in (*slow, (None, running_writer)):
        writer.close()
    await until(pod.pod.admission.empty)
    assert pod.pod.counters.settled() == pod.pod.counters.received + 1


async def test_a_slow_sender_that_leaves_is_counted_once(start: Any, until: Any) -> None:
    pod = await start(SHALLOW)
    for _, writer in await slow_senders(pod, until):
        writer.transport.abort()
    await until(lambda: pod.pod.counters.settled() == SLOW_SENDERS)
    assert pod.pod.admission.empty()
    assert pod.pod.admission.memory.held_bytes == 0
