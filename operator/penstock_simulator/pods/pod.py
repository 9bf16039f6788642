"""A simulated pod: its lifecycle, its queue, and the runtime's rule for the next batch. Times are seconds of the trace.

`advance(until)` runs every batch that begins before `until`; all arrivals before `until` must have been pushed.
The rule is the runtime's (`penstock_runtime.engine.dynamic.batch_former`) for requests of one row and one shape, whose
arrival rate is counted over the last second, without the requests that wait.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from penstock_operator.observed import GenerationSample
from penstock_simulator.pods.engine import SimulatedEngine

LINGER_SECONDS = 5.0
"""Time for which a draining pod still accepts requests; it is not released before."""


@dataclass(frozen=True, slots=True)
class PodLimits:
    """Limits of every pod in addition to the cap."""

    window_seconds: float
    max_queue_depth: int
    timeout_seconds: float


class SimulatedPod:
    """One replica, from its creation to its release."""

    __slots__ = (
        "_limits", "arrivals", "billed_from", "cap", "created", "engine", "expired", "head", "index", "kill_at", "ready_at",
        "received", "rejected", "released_at", "shared_waiting", "terminating_since", "uid", "variant",
    )  # fmt: skip

    def __init__(self, index: int, created: float, ready_at: float, engine: SimulatedEngine, limits: PodLimits) -> None:  # fmt: skip
        self.index = index
        self.uid = f"pod-{index}"
        self.variant = ""
        """The variant of the pool that it is of; empty without variants."""
        self.created = created
        self.billed_from = created
        self.ready_at = ready_at
        self.engine = engine
        self.cap = 1
        self.arrivals = engine.queue
        self.expired = 0
        self.head = 0
        self.received = 0.0
        self.rejected: list[float] = []
        self.shared_waiting = 0.0
        """Share of the central queue."""
        self.terminating_since = inf
        self.kill_at = inf
        self.released_at = inf
        self._limits = limits

    def accepts(self, now: float) -> bool:
        """Return whether new requests may be sent here."""
        return self.ready_at <= now < self.terminating_since

    def waiting(self) -> float:
        """Return the number of waiting requests."""
        return len(self.arrivals) - self.head + self.shared_waiting

    def in_flight(self, now: float) -> int:
        """Return the number of waiting and running requests."""
        return len(self.arrivals) - self.head + self.engine.running(now)

    def unserved(self) -> bool:
        """Return whether a request waits, so that its end is unknown."""
        return self.head < len(self.arrivals)

    def generation(self) -> GenerationSample | None:
        """Return the metrics of generation; None of a pod that serves batches."""
        return None

    def settled(self) -> float:
        """Return the number of requests that have ended: completed, expired or rejected."""
        return self.engine.completed + self.expired + len(self.rejected)

    def push(self, times: Sequence[float]) -> None:
        """Add arrivals, ascending and not before earlier ones."""
        self.arrivals.extend(times)
        self.received += len(times)

    def advance(self, until: float) -> None:
        """Run every batch that begins before `until`.

        The hot loop: it iterates once per batch, so it uses local variables and avoids calls.
        """
        engine, limits = self.engine, self._limits
        if engine.free_at >= until and len(self.arrivals) - self.head <= limits.max_queue_depth:
            return
        end = min(until, self.kill_at)
        arrivals, head, free, cap = self.arrivals, self.head, engine.free_at, self.cap
        times, noise = engine.times, engine.noise
        window, timeout, depth = (
            limits.window_seconds,
            limits.timeout_seconds,
            limits.max_queue_depth,
        )
        known = len(arrivals)
        while free < end and head < known:
            first = arrivals[head]
            start = free if free >= first + window else self._start(head, free)
            if start >= end:
                break
            if first < start - timeout:
                after = bisect_left(arrivals, start - timeout, head)
                self.expired += after - head
                head = after
            upto = bisect_right(arrivals, start, head)
            if upto - head > depth:
                self._reject(head, upto)
                upto, known = head + depth, len(arrivals)
            last = head + cap if upto - head > cap else upto
            if last > head:
                seconds = times[last - head]
                if noise is not None:
                    seconds *= noise.factor()
                free = start + seconds
                engine.firsts.append(head)
                engine.lasts.append(last)
                engine.ends.append(free)
                engine.spent.append(seconds)
                head = last
        self.head, engine.free_at = head, free
        if known - head > depth:
            self._reject(head, known)

    def _start(self, head: int, free: float) -> float:
        """Return when the next batch begins, given only the known arrivals."""
        arrivals = self.arrivals
        first = arrivals[head]
        start = max(free, first)
        closes = first + self._limits.window_seconds
        upto = head
        while start < closes:
            upto = bisect_right(arrivals, start, upto)
            rows = upto - head
            if rows >= self.cap or not self._waiting_pays(head, rows, start):
                break
            start = min(closes, arrivals[upto]) if upto < len(arrivals) else closes
        return start

    def _waiting_pays(self, head: int, rows: int, now: float) -> bool:
        """Return whether a batch of `rows` waits; those that wait are no part of the arrival rate, as in the runtime."""
        rate = head - bisect_left(self.arrivals, now - 1.0, 0, head)
        return rate * self.engine.times[rows] > rows

    def _reject(self, head: int, upto: int) -> None:
        """Remove requests that arrived at a full queue, which shrinks only when a batch starts."""
        full = head + self._limits.max_queue_depth
        self.rejected.extend(self.arrivals[full:upto])
        del self.arrivals[full:upto]

    def terminate(self, now: float, drain_seconds: float) -> None:
        """Start draining; a pod that was never Ready is released immediately."""
        self.terminating_since = now
        self.kill_at = now + drain_seconds
        if self.ready_at > now:
            self.released_at = now

    def release_if_done(self, now: float) -> bool:
        """Return whether the pod is released by `now`, and set the time of its release."""
        if self.released_at <= now:
            return True
        if self.terminating_since > now or self.ready_at > now:
            return False
        linger = self.terminating_since + LINGER_SECONDS
        done = inf if self.unserved() else max(self.engine.free_at, linger)
        done = min(done, max(self.kill_at, self.engine.free_at))
        if done <= now:
            self.released_at = done
        return done <= now
