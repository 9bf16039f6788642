"""Open-loop load generator: requests are sent at their intended times, independent of earlier answers."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.load.arrivals import Arrivals, Step
from tests.support.load.report import Report, report
from tests.support.load.samples import SampleRequest
from tests.support.load.sender import Sender
from tests.support.load.tally import FinishedRequest, LoadOutcome, RequestTally

MAX_SLEEP_SECONDS = 0.05
"""Upper bound on the delay until a change of rate applies."""


@dataclass(slots=True)
class Generator:
    """Sends `samples` in turn through `sender` and counts the outcomes."""

    sender: Sender
    samples: Sequence[SampleRequest]
    arrivals: Arrivals
    clock: Callable[[], float]
    rate: float = 0.0
    tally: RequestTally = field(default_factory=RequestTally)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Send until `stop`."""
        turn = itertools.cycle(self.samples)
        before = self.clock()
        while not self._stopping.is_set():
            now = self.clock()
            for intended in self.arrivals.between(before, now, self.rate):
                self._send(next(turn), intended)
            before = now
            await asyncio.sleep(min(self.arrivals.wait(self.rate), MAX_SLEEP_SECONDS))

    async def follow(self, schedule: Sequence[Step]) -> None:
        """Apply the rates of the schedule, then stop."""
        for step in schedule:
            self.rate = step.rate
            await asyncio.sleep(step.seconds)
        self.stop()

    def stop(self) -> None:
        """Stop sending; requests in flight continue."""
        self._stopping.set()

    async def settle(self, grace_seconds: float) -> None:
        """Wait for the requests in flight; those without an answer after the grace period are lost."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def report(self, started: float, *, final: bool = False) -> Report:
        """Return the present counts."""
        now = self.clock()
        return report(self.tally, now - started, self.rate, now, final=final)

    def _send(self, sample_request: SampleRequest, intended: float) -> None:
        self.tally.send(self.clock() - intended)
        task = asyncio.create_task(self._send_and_count(sample_request, intended))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_and_count(self, sample_request: SampleRequest, intended: float) -> None:
        try:
            ended = await self.sender.send(sample_request, intended)
        except asyncio.CancelledError:
            ended = FinishedRequest(
                intended, self.clock(), LoadOutcome.LOST, note="no answer by the end"
            )
        self.tally.end(ended)
