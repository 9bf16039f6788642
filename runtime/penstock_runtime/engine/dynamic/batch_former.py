"""`form_batch`: forms the next batch from the heads of the queue, the limits and the expected arrivals.

A group (requests of one shape) is *ripe*, i.e. may run at once, when any of these holds:

- its rows fill a batch;
- its window, which opened when the first of those still waiting arrived, has elapsed;
- half the slack of its earliest deadline is spent: half, so that a late wake-up cannot make an idle
  engine miss a deadline it could have kept;
- waiting does not pay: fewer rows are expected to arrive while the batch would run than wait for it
  already. (Holding `r` rows for a moment costs `r` times that moment; it saves each of the `rate * moment`
  newcomers the `seconds(r)` that they would wait behind the batch. So it pays while
  `rate * seconds(r) > r`.) An idle engine therefore serves a lone request at once.

Of the ripe groups the one whose head has the best key runs, so no shape starves another.
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
    """Rows of a batch; only a request that alone has more may exceed it, and it runs in slices of the cap."""
    window_seconds: float
    """How long the first waiting request of a group may be held for company."""
    bounds: Mapping[Group, int] = {}
    """Rows of a batch of groups that bear fewer than `cap`."""

    def cap_of(self, group: Group) -> int:
        """Return the cap of one group."""
        return min(self.cap, self.bounds.get(group, self.cap)) if self.bounds else self.cap


class ArrivalForecast(Struct, frozen=True):
    """What is expected of the next moment."""

    service_time: ServiceTime
    rows_per_second: float
    """Arrival rate of new rows, without those that wait already."""


class ArrivalRate:
    """Exponentially weighted rate of arriving rows, over about the last MEMORY_SECONDS."""

    __slots__ = ("_counted", "_time")

    def __init__(self) -> None:
        self._counted = 0.0
        self._time = 0.0

    def note(self, rows: int, now: float) -> None:
        """Count `rows` that arrived at `now`."""
        if now > self._time:
            self._counted = self._faded(now)
            self._time = now
        self._counted += rows

    def rows_per_second(self, now: float, *, besides: int = 0) -> float:
        """Return the rate at `now`, without `besides` rows that arrived recently."""
        return max(0.0, self._faded(now) - besides) / MEMORY_SECONDS

    def _faded(self, now: float) -> float:
        return self._counted * math.exp(-max(0.0, now - self._time) / MEMORY_SECONDS)


class Batch(Struct, frozen=True):
    """Run these now; they no longer wait."""

    requests: tuple[Request, ...]
    rows: int
    cap: int
    """The cap in force when it was formed."""


class WaitUntil(Struct, frozen=True):
    """Nothing is ripe before `time`, unless something arrives or changes."""

    time: float


class NothingWaits(Struct, frozen=True):
    """Nothing waits."""


Placement = Batch | WaitUntil | NothingWaits


def form_batch(
    waiting: WaitingRequests, limits: BatchLimits, outlook: ArrivalForecast, now: float
) -> Placement:
    """Return what a free engine should do; a returned batch's requests have left `waiting`.

    Looks at no more than four heads, whatever waits; then takes one request after another.
    """
    heads = waiting.heads()
    if not heads:
        return NothingWaits()
    if len(heads) == 1:
        return _form_only(waiting, heads[0], limits, outlook, now)
    ripe = [head for head in heads if ripe_at(head, limits, outlook) <= now]
    if not ripe and not waiting_pays(heads[0].rows, outlook):
        ripe = [heads[0]]
    if not ripe:
        return WaitUntil(min(ripe_at(head, limits, outlook) for head in heads))
    return _batch(waiting, min(ripe, key=lambda head: head.key), limits)


def _form_only(
    waiting: WaitingRequests,
    head: GroupHead,
    limits: BatchLimits,
    outlook: ArrivalForecast,
    now: float,
) -> Placement:
    """Return what `form_batch` returns, where all waiting requests have one shape: there is one group."""
    ripe = ripe_at(head, limits, outlook)
    if ripe > now and waiting_pays(head.rows, outlook):
        return WaitUntil(ripe)
    return _batch(waiting, head, limits)


def _batch(waiting: WaitingRequests, head: GroupHead, limits: BatchLimits) -> Batch:
    before = waiting.rows
    cap = limits.cap_of(head.shape)
    requests = waiting.take(head.shape, cap)
    return Batch(requests, before - waiting.rows, cap)


def ripe_at(head: GroupHead, limits: BatchLimits, outlook: ArrivalForecast) -> float:
    """Return when a group must be held no longer; its opening when it fills a batch already."""
    if head.rows >= limits.cap_of(head.shape) or limits.window_seconds <= 0.0:
        return head.opened
    closes = head.opened + limits.window_seconds
    if head.earliest_deadline is None:
        return closes
    latest_start = head.earliest_deadline - outlook.service_time.seconds(head.rows)
    return min(closes, (head.opened + latest_start) / 2)


def waiting_pays(rows: int, outlook: ArrivalForecast) -> bool:
    """Return whether more rows are expected during the run of a batch of `rows` than it holds."""
    return outlook.rows_per_second * outlook.service_time.seconds(rows) > rows
