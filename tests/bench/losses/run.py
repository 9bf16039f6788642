"""`run`: requests and events against one world, and what became of them."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tests.bench.losses.clients import Clients, Tally
from tests.bench.losses.events import Events
from tests.bench.losses.streams import Streams, StreamTally
from tests.bench.losses.world import Front, World
from tests.support.gateway import api_server

WATCH_SECONDS: Final = 30.0
STREAM_PAUSE_SECONDS: Final = 0.5
"""Pause of a client between two streams."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of it; there are at least as many requests, and more while events last."""

    requests: int
    events: int
    seed: int
    clients: int = 32
    pods: int = 4
    gateways: int = 2
    front: Front = Front.GATEWAY
    each: bool = False
    """Whether each kind of event happens equally often, instead of by its weight."""
    only: tuple[str, ...] = ()
    """Names of the kinds of events; empty: all."""
    streams: int = 0
    """Clients of generated text; with any there is a pool of pods that generate."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run."""

    tally: Tally
    streams: StreamTally
    events: Counter[str]
    seconds: float
    timeline: list[tuple[float, float, str]]
    """(begin, end, kind) of each event, in seconds."""
    taken_over: int = 0
    """Generations that pods took over from others, whose end was planned."""

    @property
    def failures(self) -> list[str]:
        """Everything that must not be."""
        return [*self.tally.failures, *self.streams.failures]


async def run(scale: Scale, watch: Callable[[Outcome], None] | None = None) -> Outcome:
    """Send the requests while the events happen; `watch` gets what happened so far, every `WATCH_SECONDS`."""
    async with api_server.serving() as api:
        world = World(random.Random(scale.seed), scale.pods, api, scale.front)  # noqa: S311
        try:
            await world.start(scale.gateways)
            pool = await world.start_generating() if scale.streams else None
            tally = Tally()
            events = Events(world, lambda: tally.right, scale.only)
            clients = Clients(
                world.target, scale.requests, lambda: not events.done, tally, is_down=world.is_down
            )
            streams = Streams(
                world.gateway, world.is_down, lambda: not sending.done(), STREAM_PAUSE_SECONDS
            )
            if pool is not None:
                await streams.record(pool.urls()[0])
            begin = time.monotonic()

            def so_far() -> Outcome:
                seconds = time.monotonic() - begin
                return Outcome(tally, streams.tally, events.happened, seconds, events.timeline)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_report(watch, so_far, events))
                sending = tasks.create_task(clients.run(scale.clients))
                tasks.create_task(streams.run(scale.streams))
                tasks.create_task(events.run(scale.events, scale.requests, each=scale.each))
            taken_over = 0 if pool is None else await pool.total_taken_over()
            return replace(so_far(), taken_over=taken_over)
        finally:
            await world.stop()


async def _report(
    watch: Callable[[Outcome], None] | None, so_far: Callable[[], Outcome], events: Events
) -> None:
    """Report until the events are over."""
    while watch is not None and not events.done:
        watch(so_far())
        await asyncio.sleep(WATCH_SECONDS)
