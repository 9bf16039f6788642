"""Runs the acts of the demo under load and records every second."""

import asyncio
import time
from dataclasses import dataclass

from tests.demo import edits, gauges
from tests.demo.moment import Moment, moment
from tests.demo.outcome import EditTaken, Run
from tests.demo.story import STORY, Act
from tests.demo.table import Screen
from tests.support.kube.pools import PoolHandle
from tests.support.kube.target import Target
from tests.support.load.load import Load

CALM_SECONDS = 10
"""Time at minReplicas after which a pool counts as shrunk."""


@dataclass(slots=True)
class Director:
    """Runs the acts with a load generator and a pool that already exist."""

    target: Target
    pool: PoolHandle
    load: Load
    screen: Screen
    run: Run
    floor: int
    """The pool's minReplicas."""

    async def perform(self) -> None:
        """Run the acts, then stop the load and record its figures."""
        started = time.monotonic()
        async with self.load:
            await self.load.next()
            for act in STORY:
                await self._perform(act, started)
        self.run.final = self.load.final

    async def _perform(self, act: Act, started: float) -> None:
        self.screen.remark(f"\n{act.title}: {act.rate:.0f} requests/s")
        await self.load.set_rate(act.rate)
        editing = asyncio.create_task(self._edit(act, int(time.monotonic() - started)))
        ends = time.monotonic() + act.seconds
        while time.monotonic() < ends:
            await self.load.next()
            current = await self._look(act, int(time.monotonic() - started))
            self.run.moments.append(current)
            self.screen.show(current)
            if act.until_shrunk and self._shrunk():
                break
        await editing

    async def _look(self, act: Act, second: int) -> Moment:
        pool, gauge = await asyncio.gather(
            asyncio.to_thread(self.pool.get),
            asyncio.to_thread(gauges.read, self.pool.api, self.pool.namespace, self.pool.name),
        )
        return moment(second, act.title, self.load.latest, pool, gauge)

    async def _edit(self, act: Act, second: int) -> None:
        if act.edit is None:
            return
        taken = await asyncio.to_thread(edits.make, self.target, self.pool, act.edit, second)
        self.run.edits.append(taken)
        self.screen.remark(f"$ {taken.command}\n  # {act.edit.why}; {acknowledgement_text(taken)}")

    def _shrunk(self) -> bool:
        last = self.run.moments[-CALM_SECONDS:]
        return len(last) == CALM_SECONDS and all(
            moment.ready == moment.wanted == self.floor and moment.act == last[-1].act
            for moment in last
        )


def acknowledgement_text(taken: EditTaken) -> str:
    """Return a text with the seconds until an edit was acknowledged."""
    if taken.acknowledged_seconds is not None:
        return f"acknowledged by all pods after {taken.acknowledged_seconds:.1f} s"
    return taken.effect or "NOT acknowledged by all pods"
