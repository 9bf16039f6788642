"""Admission: bounds, credits, predicted wait, Retry-After, and the one book of who has not ended yet.

The HTTP side holds the credits, so a refusal needs no round trip to the engine. Every request that comes
through the door leaves it exactly once: refused, or ended as Completed, Failed, Expired or Cancelled.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

from msgspec import Struct

from penstock_api.limits import Discipline, PodLoad
from penstock_runtime.engine.messages import Cancel, Submit, ToEngine
from penstock_runtime.engine.queue.disciplines import LOWEST_CLASS
from penstock_runtime.errors import (
    DeadlineTooNear,
    MemoryFull,
    NotServing,
    QueueFull,
    RequestRejected,
)
from penstock_runtime.request import OUTCOMES, Completed, End, Failed, Request, RequestOutcome
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.health import Health
from penstock_runtime.serving.limits import LiveLimits
from penstock_runtime.serving.priority_classes import PriorityClasses
from penstock_runtime.serving.ticket import Ticket
from penstock_runtime.serving.wait_estimate import (
    least_wait_seconds,
    patience_to_start,
    retry_after_seconds,
)

Hold = Callable[[int], None]
"""Told how many bytes a request takes from now on, before it takes more; raises MemoryFull, as `hold_bytes`."""

Hear = Callable[[End | QueueFull], bool]
"""Told the end of a request, or that it lost its place; returns whether its client was still there to be told."""


class _PendingRequest(Struct, gc=False):
    """A submitted request that has not ended. The engine, maybe in another process, is who has its tensors."""

    ticket: Ticket
    hear: Hear
    id: str
    rows: int
    arrived: float
    priority: int


class Admission:
    """Owns the credits and the book of submitted requests."""

    def __init__(  # noqa: PLR0913 - every owner whose state a request touches, by name
        self,
        send: Callable[[ToEngine], None],
        live: LiveLimits,
        health: Health,
        counters: Counters,
        *,
        now: Callable[[], float] = time.monotonic,
        most_bytes: int = 2**62,
    ) -> None:
        self._send = send
        self._live = live
        self._health = health
        self._counters = counters
        self._now = now
        self._held: dict[str, _PendingRequest] = {}
        self._rows_held = 0
        self._owing_since = 0.0
        """When the book was last empty and a request joined it."""
        self._classes = PriorityClasses()
        self._placed = 0
        """Requests whose body has come and that are made ready for the engine: each holds a place in the queue."""
        self._displacing = 0
        """Of those, how many hold a place beyond the limits."""
        self._bytes = 0
        self._most_bytes = most_bytes
        self._ids = count(1)

    @contextmanager
    def receive(self, seconds_in_socket: float = 0.0) -> Iterator[Ticket]:
        """Count one request at the door, which came so long ago, and its leaving however the block is left.

        A refusal raised inside is counted under its reason, a cancellation (the client went away) frees
        the slot, and any other error counts as Failed; all are raised again.
        """
        ticket = self.open(self._now() - seconds_in_socket)
        try:
            yield ticket
        except RequestRejected as refusal:
            self.refuse(ticket, refusal)
            raise
        except asyncio.CancelledError:
            self.cancel(ticket)
            raise
        except BaseException:
            self.fail(ticket)
            raise
        finally:
            self.depart(ticket)

    # -- the same in steps: `open`, then `submit`, or one of `refuse`, `cancel` and `fail`; at last `depart`

    def open(self, came: float) -> Ticket:
        """Count one request at the door."""
        self._counters.received += 1
        return Ticket(f"{next(self._ids):x}", came)

    def refuse(self, ticket: Ticket, refusal: RequestRejected) -> None:
        """Count a refusal under its reason."""
        if not ticket.rows_counted and refusal.status in (429, 503):
            self._counters.count_unread_rows()
        if not ticket.left:
            ticket.left = True
            self._counters.refused[refusal.reason] += 1

    def reject(self, refusal: RequestRejected) -> None:
        """Count one request at the door and its refusal there, unread: `open`, `refuse` and `depart` in one step."""
        self._counters.received += 1
        self._counters.count_unread_rows()
        self._counters.refused[refusal.reason] += 1

    def cancel(self, ticket: Ticket) -> None:
        """Free the place of a request whose client went away."""
        if self._release(ticket.id) is not None:
            self._send(Cancel((ticket.id,)))
        self._leave(ticket, RequestOutcome.CANCELLED)

    def fail(self, ticket: Ticket) -> None:
        """Count a request that met a defect of ours."""
        self._leave(ticket, RequestOutcome.FAILED)

    def depart(self, ticket: Ticket) -> None:
        """Give back what `ticket` still holds: its place and its bytes."""
        self._give_place_back(ticket)
        self._bytes -= ticket.bytes
        ticket.bytes = 0

    def check_slot(self, priority: int = LOWEST_CLASS) -> None:
        """Raise NotServing or QueueFull where a body of a class as good as `priority` would be read in vain."""
        self._health.check_serving()
        if self.full() and not self.may_displace(priority):
            raise self.queue_full()

    def reserve_slot(self, ticket: Ticket, priority: int = LOWEST_CLASS) -> None:
        """Take a place for a request whose body has come whole: one that is slow to come holds none. Raises as `check_slot`."""
        self.check_slot(priority)
        ticket.displaces = self.full()
        self._displacing += ticket.displaces
        self._placed += 1
        ticket.placed = True

    def may_displace(self, priority: int) -> bool:
        """Return whether a request of such a class may find somebody in a full queue who is served after it."""
        if self._live.accepted.discipline is not Discipline.PRIORITY:
            return False
        return self._classes.waiting_below(priority) > self._displacing

    def queue_full(self) -> QueueFull:
        """Return the refusal that a full queue means now."""
        depth = self._live.accepted.max_queue_depth
        return QueueFull(
            f"{depth} requests wait already, as many as maxQueueDepth allows: try again later",
            retry_after_seconds=self.retry_after_seconds(),
        )

    def full(self) -> bool:
        """Return whether as many wait, or are made ready, as the limits allow."""
        return self._waiting() + self._placed >= self._live.accepted.max_queue_depth

    def hold_bytes(self, ticket: Ticket, size: int) -> None:
        """Note that `ticket` takes `size` bytes now: its body as announced, as it comes, then what is made of it.

        Raises:
            MemoryFull: all requests together would take more than this pod sets apart for them.
        """
        if self._bytes - ticket.bytes + size > self._most_bytes:
            raise MemoryFull(
                f"{self._bytes} bytes of requests are held already, of {self._most_bytes}: try again later",
                retry_after_seconds=self.retry_after_seconds(),
            )
        self._bytes += size - ticket.bytes
        ticket.bytes = size

    def hold_unread(self, more_bytes: int) -> None:
        """Count `more_bytes` (or fewer, if negative) of answers that lie unread; they leave newcomers less room."""
        self._bytes += more_bytes

    def hold_apart(self, size: int) -> Callable[[], None]:
        """Count `size` bytes of work that goes on when its client has left, until what is returned is called once.

        Raises:
            MemoryFull: as `hold_bytes`.
        """
        worker = Ticket("", self._now())
        self.hold_bytes(worker, size)
        return partial(self.depart, worker)

    def holding(self, ticket: Ticket) -> Hold:
        """Return `hold_bytes` of `ticket`."""
        return partial(self.hold_bytes, ticket)

    @contextmanager
    def hold_meanwhile(self) -> Iterator[Hold]:
        """As `holding`, of a request that this pod answers without its engine, and so does not count."""
        ticket = Ticket("", self._now())
        try:
            yield self.holding(ticket)
        finally:
            self.depart(ticket)

    def count_rows(self, ticket: Ticket, rows: int) -> None:
        """Count the rows of a request as soon as its body says them."""
        self._counters.count_rows(rows)
        ticket.rows_counted = True

    def serve(self, ticket: Ticket, request: Request) -> asyncio.Future[End]:
        """Submit `request`, and return what its end will be.

        Raises:
            TooLate: it could not begin before its deadline even if all goes well.
            QueueFull: it would be served after all that wait in a full queue; as the end: it has lost its place to a better class.
            NotServing: the pod stopped serving while the body was read.
        """
        future: asyncio.Future[End] = asyncio.get_running_loop().create_future()

        def hear(end: End | QueueFull) -> bool:
            if future.done():  # cancelled, and its task not yet woken to say so
                return False
            if isinstance(end, QueueFull):
                future.set_exception(end)
            else:
                future.set_result(end)
            return True

        self.submit(ticket, request, hear)
        return future

    def submit(self, ticket: Ticket, request: Request, hear: Hear) -> None:
        """Submit `request`; `hear` is told its end, once, unless it is cancelled before, or that it lost its place.

        Raises:
            As `serve`.
        """
        if self._health.refusing:
            raise NotServing("Draining", "this pod is stopping: try again, another one answers")
        if request.deadline is not None:
            late = self._late(request.priority, request.deadline - self._now())
            if late is not None:
                raise late
        if ticket.displaces:
            self._make_room(request)
        if ticket.placed:
            self._give_place_back(ticket)
        if not self._held:
            self._owing_since = self._now()
        held = _PendingRequest(
            ticket, hear, request.id, request.rows, request.arrived, request.priority
        )
        self._held[held.id] = held
        self._rows_held += held.rows
        self._classes.join(held)
        self._send(Submit((request,)))

    def note_begun(self, ids: Iterable[str]) -> None:
        """Take the engine's word on who waits no longer, before that on how they end."""
        for name in ids:
            held = self._held.get(name)
            if held is not None:
                self._classes.begin(held)

    def _make_room(self, request: Request) -> None:
        """In a queue that is still full, refuse who would be served last: one that waits, or `request`."""
        others = self._waiting() + self._placed - 1
        if others < self._live.accepted.max_queue_depth:
            return
        last, refusal = self._classes.lowest_ranked_after(request), self.queue_full()
        held = None if last is None else self._release(last.id)
        if held is None:
            raise refusal
        self._send(Cancel((held.id,)))
        self.refuse(held.ticket, refusal)
        self.depart(held.ticket)
        held.hear(refusal)

    def deliver(self, ends: Iterable[tuple[str, End]]) -> None:
        """Take a step's ends from the engine; those of clients that went away are in the past."""
        now, ended = self._now(), self._counters.ended
        durations, waits = list[float](), list[float]()
        for name, end in ends:
            held = self._held.pop(name, None)
            if held is None:
                continue
            self._rows_held -= held.rows
            self._classes.leave(held)
            ticket = held.ticket
            self._bytes -= ticket.bytes
            ticket.bytes = 0
            heard = held.hear(end)
            if ticket.left:
                continue
            ticket.left = True
            if heard and type(end) is Completed:
                durations.append(now - ticket.arrived)
                waits.append(end.queue_seconds)
            else:
                ended[OUTCOMES[type(end)] if heard else RequestOutcome.CANCELLED] += 1
        ended[RequestOutcome.COMPLETED] += len(durations)
        self._counters.request_seconds.observe_all(durations)
        self._counters.queue_seconds.observe_all(waits)

    def fail_all(self, failed: Failed) -> None:
        """End everything that is still held, because nothing else will."""
        self.deliver([(name, failed) for name in list(self._held)])

    def load(self) -> PodLoad:
        """Return what waits and what runs, in requests, by the engine's last word and our own book."""
        waiting = self._waiting()
        return PodLoad(waiting=waiting, running=self._submitted() - waiting)

    def _submitted(self) -> int:
        return len(self._held)

    def _waiting(self) -> int:
        report = self._live.report
        running = report.running if report else 0
        return max(0, self._submitted() - running)

    def owing_since(self) -> float | None:
        """Return since when the engine has held requests without a break; None: it holds none."""
        return self._owing_since if self._submitted() else None

    def empty(self) -> bool:
        """Return whether nothing is held and nothing is made ready."""
        return not self._submitted() and not self._placed

    def retry_after_seconds(self) -> float:
        """Return when the queue of now will have been served."""
        curve = self._live.service_time
        return retry_after_seconds(curve, self._rows_waiting(), self._live.effective_cap)

    def seconds_to_start(self, patience_seconds: float | None) -> float | None:
        """Return how long a request may wait whose answer is due in `patience_seconds` (None: at any time).

        Its batch takes time too, with all that is held now: an answer behind its deadline is work wasted.
        That is a prediction, so it takes half of the patience at most: an idle engine always tries.
        """
        if patience_seconds is None:
            return None
        live = self._live
        seconds = live.service_time.seconds(min(live.effective_cap, self._rows_held + 1))
        return patience_to_start(patience_seconds, seconds)

    def _rows_waiting(self) -> float:
        return self._rows_held * self._waiting() / max(1, len(self._held))

    def is_slow(self, timeout_seconds: float, seconds_in_socket: float) -> bool:
        """Return whether an answer in `timeout_seconds`, of which so many passed, is not certain: `too_late` knows."""
        return self._all_held_seconds() > timeout_seconds / 2 - seconds_in_socket

    def too_late(
        self, timeout_seconds: float, seconds_in_socket: float, priority: int
    ) -> DeadlineTooNear | None:
        """Return why no answer can come in `timeout_seconds`, of which so many passed; None if one may."""
        left = (self.seconds_to_start(timeout_seconds) or 0.0) - seconds_in_socket
        return self._late(priority, left)

    def _late(self, priority: int, left_seconds: float) -> DeadlineTooNear | None:
        """Return the refusal of who must begin in `left_seconds`; None if that may be."""
        if self._all_held_seconds() <= left_seconds:
            return None  # even if all that is held went first
        live = self._live
        wait = least_wait_seconds(live.service_time, self._rows_ahead(priority), live.effective_cap)
        if wait <= left_seconds:
            return None
        return DeadlineTooNear(
            f"the predicted wait of {wait:.3f} s exceeds the {max(left_seconds, 0):.3f} s that the deadline"
            " leaves: give it more time, or try again later",
            field="parameters.timeout",
            retry_after_seconds=self.retry_after_seconds(),
        )

    def _all_held_seconds(self) -> float:
        live = self._live
        cap = live.effective_cap
        return self._rows_held / cap * live.service_time.seconds(cap)

    def _rows_ahead(self, priority: int) -> float:
        """Rows that are surely served first: by deadline, by size or by tenant, none are."""
        discipline = self._live.accepted.discipline
        share = self._rows_waiting() / max(1, self._rows_held)
        if discipline is Discipline.FIRST_IN_FIRST_OUT:
            return self._rows_held * share
        if discipline is Discipline.PRIORITY:
            return share * self._classes.rows_up_to(priority)
        return 0.0

    def _release(self, id: str) -> _PendingRequest | None:
        held = self._held.pop(id, None)
        if held is not None:
            self._rows_held -= held.rows
            self._classes.leave(held)
        return held

    def _leave(self, ticket: Ticket, outcome: RequestOutcome) -> None:
        if not ticket.left:
            ticket.left = True
            self._counters.ended[outcome] += 1

    def _give_place_back(self, ticket: Ticket) -> None:
        if ticket.placed:
            ticket.placed = False
            self._placed -= 1
            self._displacing -= ticket.displaces
            ticket.displaces = False
