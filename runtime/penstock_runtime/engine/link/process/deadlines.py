"""`DeadlineWatch`: expires requests that wait in another process while its single thread computes a batch.

The engine reports which requests its batch took (`Settled.began`) and how each ended. A request that still waits
when its deadline passes expires on the HTTP side at once, and the engine's later report of it is dropped.
"""

import asyncio
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from penstock_runtime.engine.link.process.channel import MessageChannel
from penstock_runtime.engine.messages import Cancel, EngineReport, Settled, Submit, ToEngine
from penstock_runtime.engine.queue.heap import LazyHeap
from penstock_runtime.request import Expired, Request

LATE_SECONDS = 0.005
"""Grace period after a deadline: within it, an idle engine reports that the request expired or started."""


class Deadlines:
    """The waiting requests with a deadline, and the requests that expired here. Pure; seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._waiting: LazyHeap[tuple[float, float], str] = LazyHeap()
        """By deadline and time of arrival."""
        self._expired: set[str] = set()
        """Ids that the engine has not reported yet."""

    def add(self, requests: Iterable[Request]) -> None:
        """Add the requests that have a deadline."""
        for request in requests:
            if request.deadline is not None:
                self._waiting.put(request.id, (request.deadline, request.arrived))

    def remove(self, ids: Iterable[str]) -> None:
        """Remove requests that started, ended or were cancelled."""
        for name in ids:
            self._waiting.discard(name)

    def next(self) -> float | None:
        """Return the earliest deadline of the waiting requests."""
        head = self._waiting.head()
        return None if head is None else head[0][0]

    def expire(self, now: float) -> tuple[tuple[str, Expired], ...]:
        """Return the ends of the requests whose deadline is at or before `now`, the earliest first."""
        ends: list[tuple[str, Expired]] = []
        while (head := self._waiting.head()) is not None and head[0][0] <= now:
            (_, arrived), name = head
            self._waiting.discard(name)
            ends.append((name, Expired(now - arrived)))
        self._expired.update(name for name, _ in ends)
        return tuple(ends)

    def filter(self, settled: Settled) -> Settled:
        """Record a report, and return it without the ends of requests that expired here."""
        if self._waiting:
            self.remove(settled.began)
            self.remove(name for name, _ in settled.ends)
        if not self._expired:
            return settled
        expired = self._expired.intersection(name for name, _ in settled.ends)
        self._expired -= expired
        ends = tuple(end for end in settled.ends if end[0] not in expired)
        return replace(settled, ends=ends)


class DeadlineWatch:
    """A `process.Interceptor` that expires requests while the engine's process computes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deadlines = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        """Fires at the earliest deadline or earlier."""
        self._report: EngineReport
        """State of the engine in its last report."""
        self._channel: MessageChannel
        self._deliver: Callable[[Settled], None]

    def connect(self, channel: MessageChannel, deliver: Callable[[Settled], None]) -> None:
        """Send cancellations through `channel`, and expirations to `deliver`."""
        self._channel, self._deliver = channel, deliver

    def sent(self, message: ToEngine) -> None:
        """Record a message that was sent to the engine."""
        if isinstance(message, Submit):
            self._deadlines.add(message.requests)
            self._schedule()
        elif isinstance(message, Cancel):
            self._deadlines.remove(message.ids)

    def received(self, report: Settled) -> Settled:
        """Record a report, and return the part of it to deliver."""
        self._report = report.report
        return self._deadlines.filter(report)

    def stop(self) -> None:
        """Stop expiring requests."""
        self._deadlines = Deadlines()
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        deadline = self._deadlines.next()
        if deadline is None:
            return
        wait = max(0.0, deadline + LATE_SECONDS - self._clock())
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + wait:
                return
            self._timer.cancel()
        self._timer = loop.call_later(wait, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._channel.read()  # reports of requests that started or ended meanwhile
        ends = self._deadlines.expire(self._clock())
        if ends:
            self._channel.send(Cancel(tuple(name for name, _ in ends)))
            self._deliver(Settled(ends, None, self._report))
        self._schedule()
