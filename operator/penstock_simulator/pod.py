"""A simulated pod: its life, its queue, and the runtime's rule for the next batch. Times are seconds of the trace.

`advance(until)` runs every batch that begins before `until`; all arrivals before `until` must have been pushed.
The rule is the runtime's (`penstock_runtime.batching.former`) for requests of one row and one shape, whose
arrival rate is counted over the last second.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from penstock_simulator.engine import Engine
from penstock_simulator.service import ServiceModel

LINGER_SECONDS = 5.0
"""A draining pod goes on accepting for so long, so it is never released before."""


@dataclass(frozen=True, slots=True)
class PodLimits:
    """What every pod obeys beside the cap."""

    service: ServiceModel
    """The curve by which the former judges whether waiting pays: the pod has measured itself."""
    window_seconds: float
    max_queue_depth: int
    timeout_seconds: float


class Pod:
    """One replica, from its creation to its release."""

    __slots__ = (
        "_limits", "arrivals", "billed_from", "cap", "created", "engine", "head", "kill_at", "ready_at",
        "received", "refused", "released_at", "shared_waiting", "terminating_since", "uid",
    )  # fmt: skip

    def __init__(self, uid: str, created: float, ready_at: float, engine: Engine, limits: PodLimits) -> None:  # fmt: skip
        self.uid = uid
        self.created = created
        self.billed_from = created
        self.ready_at = ready_at
        self.engine = engine
        self.cap = 1
        self.arrivals: list[float] = []
        self.head = 0
        self.received = 0.0
        self.refused: list[float] = []
        self.shared_waiting = 0.0
        """Its share of a queue that is not its own."""
        self.terminating_since = inf
        self.kill_at = inf
        self.released_at = inf
        self._limits = limits

    def accepts(self, now: float) -> bool:
        """Return whether new requests may be sent here."""
        return self.ready_at <= now < self.terminating_since

    def waiting(self) -> float:
        """Return the requests that wait here."""
        return len(self.arrivals) - self.head + self.shared_waiting

    def in_flight(self, now: float) -> int:
        """Return what waits and runs."""
        return len(self.arrivals) - self.head + self.engine.running(now)

    def push(self, times: Sequence[float]) -> None:
        """Add arrivals, ascending, none before those already here."""
        self.arrivals.extend(times)
        self.received += len(times)

    def advance(self, until: float) -> None:
        """Run every batch that begins before `until`."""
        end = min(until, self.kill_at)
        while self.engine.free_at < end and self.head < len(self.arrivals):
            start = self.next_start()
            if start >= end:
                break
            self._run(start)
        if len(self.arrivals) - self.head > self._limits.max_queue_depth:
            self._refuse(len(self.arrivals))

    def next_start(self) -> float:
        """Return when the next batch begins, if no more arrives than is known."""
        arrivals, limits = self.arrivals, self._limits
        first = arrivals[self.head]
        start = max(self.engine.free_at, first)
        closes = first + limits.window_seconds
        upto = self.head
        while start < closes:
            upto = bisect_right(arrivals, start, upto)
            rows = upto - self.head
            if rows >= self.cap or not self._waiting_pays(rows, upto, start):
                break
            start = min(closes, arrivals[upto]) if upto < len(arrivals) else closes
        return start

    def _waiting_pays(self, rows: int, upto: int, now: float) -> bool:
        rate = upto - bisect_left(self.arrivals, now - 1.0, 0, upto)
        return rate * self._limits.service.seconds(rows) > rows

    def _run(self, start: float) -> None:
        arrivals = self.arrivals
        self.head = bisect_left(arrivals, start - self._limits.timeout_seconds, self.head)
        upto = bisect_right(arrivals, start, self.head)
        if upto - self.head > self._limits.max_queue_depth:
            upto = self._refuse(upto)
        last = min(self.head + self.cap, upto)
        if last > self.head:
            self.engine.run(self.head, last, start)
            self.head = last

    def _refuse(self, upto: int) -> int:
        """Take out those who found the queue full: the queue shrinks only when a batch begins."""
        full = self.head + self._limits.max_queue_depth
        self.refused.extend(self.arrivals[full:upto])
        del self.arrivals[full:upto]
        return full

    def terminate(self, now: float, drain_seconds: float) -> None:
        """Begin to drain; a pod that never was Ready is gone at once."""
        self.terminating_since = now
        self.kill_at = now + drain_seconds
        if self.ready_at > now:
            self.released_at = now

    def release_if_done(self, now: float) -> bool:
        """Return whether the pod is gone by `now`, and set when it went."""
        if self.released_at <= now:
            return True
        if self.terminating_since > now or self.ready_at > now:
            return False
        linger = self.terminating_since + LINGER_SECONDS
        done = max(self.engine.free_at, linger) if self.head >= len(self.arrivals) else inf
        done = min(done, max(self.kill_at, self.engine.free_at))
        if done <= now:
            self.released_at = done
        return done <= now
