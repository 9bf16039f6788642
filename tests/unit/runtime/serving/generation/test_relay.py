"""How a generation ends that no other pod continues in time."""

import asyncio
import time
import weakref
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_runtime.engine.continuous.messages import Ended, Event, Usage
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.request import Expired
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.handover.messages import Overdue
from penstock_runtime.serving.generation.handover.peers import NoPeer, PeerFailed
from penstock_runtime.serving.generation.handover.relay import (
    TERMINATING,
    HandOver,
    Interruption,
)
from penstock_runtime.serving.generation.request import GenerationCall, Prompt
from tests.support.virtual_time import virtual_time

CALL = GenerationCall((Prompt((1,), SamplingParams(10, seed=1)),))
USAGE = Usage(prompt_tokens=1, completion_tokens=1, cached_tokens=0, queue_seconds=0, preemptions=0)


def a_pool(failure: PeerFailed, absent_seconds: float = 60.0) -> Any:
    """Return a pool all of whose pods fail alike."""

    async def events(_body: object, _headers: object) -> AsyncIterator[list[Any]]:
        raise failure
        yield []

    return SimpleNamespace(events=events, absent_seconds=absent_seconds)


async def end_of(pool: Any, counters: GenerationCounters, deadline: float | None) -> Any:
    """Return the end of a generation that arrived 10 s ago, and how long it was relayed."""
    loop = asyncio.get_running_loop()
    began, ended = loop.time(), loop.create_future()

    def deliver(event: Event) -> bool:
        assert isinstance(event, Ended)
        ended.set_result((event.end, loop.time() - began))
        return True

    due = None if deadline is None else began + deadline
    interruption = Interruption("a", CALL, 0, began - 10.0, due, USAGE)
    HandOver(pool, {}, "", counters, loop.time).begin(interruption, {0: [1]}, deliver)
    return await asyncio.wait_for(ended, 20)


@pytest.mark.parametrize(
    "failure", [NoPeer("refused with 504"), PeerFailed("its connection ended")]
)
async def test_a_deadline_that_passes_between_attempts_ends_the_generation_as_expired(
    failure: PeerFailed,
) -> None:
    virtual_time(asyncio.get_running_loop())
    counters = GenerationCounters()
    end, seconds = await end_of(a_pool(failure), counters, deadline=1.0)
    assert isinstance(end, Expired)
    assert 11.0 <= end.waited_seconds < 11.6
    assert seconds < 1.6, "the last pause ends with the deadline"
    assert counters.handovers_failed == 0


async def test_a_generation_that_no_pod_accepts_fails_before_its_deadline() -> None:
    counters = GenerationCounters()
    end, _ = await end_of(a_pool(NoPeer(""), absent_seconds=0.0), counters, deadline=60.0)
    assert (end, counters.handovers_failed) == (TERMINATING, 1)


async def test_a_deadline_that_passes_on_another_pod_counts_from_the_arrival_here() -> None:
    async def events(_body: object, _headers: object) -> AsyncIterator[list[Any]]:
        yield [Overdue()]

    pool: Any = SimpleNamespace(events=events, absent_seconds=60.0)
    end, _ = await end_of(pool, GenerationCounters(), deadline=0.5)
    assert isinstance(end, Expired)
    assert end.waited_seconds >= 10.0


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_generation_whose_client_leaves_while_it_is_relayed() -> None:
    async def events(_body: object, _headers: object) -> AsyncIterator[list[Any]]:
        await asyncio.sleep(60)
        yield []

    pool: Any = SimpleNamespace(events=events, absent_seconds=60.0)
    handover = HandOver(pool, {}, "", GenerationCounters(), time.monotonic)
    interruption = Interruption("a", CALL, 0, 0.0, None, USAGE)
    relay = handover.begin(interruption, {0: [1]}, lambda _: True)
    kept = weakref.ref(relay)
    await asyncio.sleep(0.01)
    relay.cancel()
    del relay
    await asyncio.sleep(0.01)
    assert kept() is None
