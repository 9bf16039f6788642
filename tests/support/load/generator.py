"""The open loop: requests leave when they are meant to, whatever became of the earlier ones."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.load.arrivals import Arrivals, Step
from tests.support.load.report import Report, report
from tests.support.load.samples import SampleRequest
from tests.support.load.sender import Sender
from tests.support.load.tally import FinishedRequest, RequestOutcome, RequestTally

LONGEST_SLEEP_SECONDS = 0.05
"""A change of rate takes hold within this."""


@dataclass(slots=True)
class Generator:
    """Sends `questions` in turn through `sender` and counts what comes of it."""

    sender: Sender
    sample_requests: Sequence[SampleRequest]
    arrivals: Arrivals
    clock: Callable[[], float]
    rate: float = 0.0
    tally: RequestTally = field(default_factory=RequestTally)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Send until `stop`."""
        turn = itertools.cycle(self.sample_requests)
        before = self.clock()
        while not self._stopping.is_set():
            now = self.clock()
            for intended in self.arrivals.between(before, now, self.rate):
                self._send(next(turn), intended)
            before = now
            await asyncio.sleep(min(self.arrivals.wait(self.rate), LONGEST_SLEEP_SECONDS))

    async def follow(self, schedule: Sequence[Step]) -> None:
        """Walk the schedule's rates, then stop."""
        for step in schedule:
            self.rate = step.rate
            await asyncio.sleep(step.seconds)
        self.stop()

    def stop(self) -> None:
        """Send nothing more; what is in flight goes on."""
        self._stopping.set()

    async def settle(self, grace_seconds: float) -> None:
        """Wait for the answers in flight; one that does not come is lost."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def report(self, started: float, *, final: bool = False) -> Report:
        """Return the counts as they stand."""
        now = self.clock()
        return report(self.tally, now - started, self.rate, now, final=final)

    def _send(self, sample_request: SampleRequest, intended: float) -> None:
        self.tally.send(self.clock() - intended)
        task = asyncio.create_task(self._ask(sample_request, intended))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, sample_request: SampleRequest, intended: float) -> None:
        try:
            ended = await self.sender.send(sample_request, intended)
        except asyncio.CancelledError:
            ended = FinishedRequest(
                intended, self.clock(), RequestOutcome.LOST, note="no answer by the end"
            )
        self.tally.end(ended)
