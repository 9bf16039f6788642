"""`form_batch`: forms the next batch from the heads of the queue, the limits and the expected arrivals.

A group (requests of one shape) is *ready*, i.e. may run at once, when any of these holds:

- its rows fill a batch;
- its window, which opened at the arrival of the first waiting request, has elapsed;
- half the slack of its earliest deadline has elapsed: only half, so that an idle engine meets the deadline in spite of
  a late wake-up;
- waiting does not pay: fewer rows are expected to arrive during the run of the batch than it already has.
  (Holding `r` rows for a time dt delays them by `r * dt` in total, and saves each of the `rate * dt` new rows the
  `seconds(r)` that it would wait behind the batch, so it pays while `rate * seconds(r) > r`.) An idle engine
  therefore serves a single request at once.

The ready group whose head has the best key runs, so that no shape starves another.
"""

import math
from collections.abc import Mapping

from msgspec import Struct

from penstock_runtime.engine.queue.queue import GroupHead, WaitingRequests
from penstock_runtime.engine.service_time import ServiceTime
from penstock_runtime.request import Group, Request

MEMORY_SECONDS = 1.0
"""Time constant of the arrival rate: long compared with a batch, short compared with a change of load."""


class BatchLimits(Struct, frozen=True):
    """Limits of the next batch."""

    cap: int
    """Rows per batch; only a single request may exceed it, and runs in slices of the cap."""
    window_seconds: float
    """Maximum time, in seconds, that the first waiting request of a group is held for others."""
    bounds: Mapping[Group, int] = {}
    """Rows per batch of the groups with a lower cap."""

    def cap_of(self, group: Group) -> int:
        """Return the cap of one group."""
        return min(self.cap, self.bounds.get(group, self.cap)) if self.bounds else self.cap


class ArrivalForecast(Struct, frozen=True):
    """Predictions that decide whether to wait for more rows."""

    service_time: ServiceTime
    rows_per_second: float
    """Arrival rate without the rows that already wait."""


class ArrivalRate:
    """Exponentially weighted rate of arriving rows, over about the last MEMORY_SECONDS."""

    __slots__ = ("_counted", "_time")

    def __init__(self) -> None:
        self._counted = 0.0
        self._time = 0.0

    def note(self, rows: int, now: float) -> None:
        """Count `rows` that arrived at `now`."""
        if now > self._time:
            self._counted = self._decayed(now)
            self._time = now
        self._counted += rows

    def rows_per_second(self, now: float, *, excluding: int = 0) -> float:
        """Return the rate at `now`, without `excluding` rows that arrived recently."""
        return max(0.0, self._decayed(now) - excluding) / MEMORY_SECONDS

    def _decayed(self, now: float) -> float:
        return self._counted * math.exp(-max(0.0, now - self._time) / MEMORY_SECONDS)


class Batch(Struct, frozen=True):
    """Requests to run now, which no longer wait."""

    requests: tuple[Request, ...]
    rows: int
    cap: int
    """Rows per run."""


class WaitUntil(Struct, frozen=True):
    """No group is ready before `time`, unless a request arrives or the limits change."""

    time: float


class NothingWaits(Struct, frozen=True):
    """The queue is empty."""


Placement = Batch | WaitUntil | NothingWaits


def form_batch(
    waiting: WaitingRequests, limits: BatchLimits, forecast: ArrivalForecast, now: float
) -> Placement:
    """Return the next action of an idle engine; the requests of a returned batch have left `waiting`.

    Reads at most four heads, whatever the length of the queue; then takes the requests of the batch.
    """
    heads = waiting.heads()
    if not heads:
        return NothingWaits()
    if len(heads) == 1:
        return _form_only(waiting, heads[0], limits, forecast, now)
    ready = [head for head in heads if ready_at(head, limits, forecast) <= now]
    if not ready and not waiting_pays(heads[0].rows, forecast):
        ready = [heads[0]]
    if not ready:
        return WaitUntil(min(ready_at(head, limits, forecast) for head in heads))
    return _batch(waiting, min(ready, key=lambda head: head.key), limits)


def _form_only(
    waiting: WaitingRequests,
    head: GroupHead,
    limits: BatchLimits,
    forecast: ArrivalForecast,
    now: float,
) -> Placement:
    """Return the next action if all waiting requests are of one group."""
    ready = ready_at(head, limits, forecast)
    if ready > now and waiting_pays(head.rows, forecast):
        return WaitUntil(ready)
    return _batch(waiting, head, limits)


def _batch(waiting: WaitingRequests, head: GroupHead, limits: BatchLimits) -> Batch:
    before = waiting.rows
    cap = limits.cap_of(head.shape)
    requests = waiting.take(head.shape, cap)
    return Batch(requests, before - waiting.rows, cap)


def ready_at(head: GroupHead, limits: BatchLimits, forecast: ArrivalForecast) -> float:
    """Return the time at which a group becomes ready; its opening if it already fills a batch."""
    if head.rows >= limits.cap_of(head.shape) or limits.window_seconds <= 0.0:
        return head.opened
    closes = head.opened + limits.window_seconds
    if head.earliest_deadline is None:
        return closes
    latest_start = head.earliest_deadline - forecast.service_time.seconds(head.rows)
    return min(closes, (head.opened + latest_start) / 2)


def waiting_pays(rows: int, forecast: ArrivalForecast) -> bool:
    """Return whether more rows are expected during the run of a batch of `rows` than it holds."""
    return forecast.rows_per_second * forecast.service_time.seconds(rows) > rows
