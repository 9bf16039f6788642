"""`run`: requests and events against one world, and what became of them."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.bench.losses.clients import Clients, Tally
from tests.bench.losses.events import Events
from tests.bench.losses.world import Front, World
from tests.support.gateway import api_server

WATCH_SECONDS: Final = 30.0


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run."""

    tally: Tally
    events: Counter[str]
    seconds: float


async def run(scale: Scale, watch: Callable[[Outcome], None] | None = None) -> Outcome:
    """Send the requests while the events happen; `watch` gets what happened so far, every `WATCH_SECONDS`."""
    async with api_server.serving() as api:
        world = World(random.Random(scale.seed), scale.pods, api, scale.front)  # noqa: S311
        try:
            await world.start(scale.gateways)
            tally = Tally()
            events = Events(world, lambda: tally.right)
            clients = Clients(
                world.target,
                scale.requests,
                lambda: not events.done,
                tally,
                is_down=lambda address: address in world.down,
            )
            begin = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_report(watch, tally, events, begin))
                tasks.create_task(clients.run(scale.clients))
                tasks.create_task(events.run(scale.events, scale.requests, each=scale.each))
            return Outcome(tally, events.happened, time.monotonic() - begin)
        finally:
            await world.stop()


async def _report(
    watch: Callable[[Outcome], None] | None, tally: Tally, events: Events, begin: float
) -> None:
    """Report until the events are over."""
    while watch is not None and not events.done:
        watch(Outcome(tally, events.happened, time.monotonic() - begin))
        await asyncio.sleep(WATCH_SECONDS)
