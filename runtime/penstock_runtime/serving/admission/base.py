"""`Admission`: the life of every request on the HTTP side, from arrival to a single end.

The HTTP side holds the bounds, so a rejection needs no round trip to the engine. Every request that arrives
is rejected, or ends once as Completed, Failed, Expired or Cancelled.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from penstock_api.pod_contract import PodLoad
from penstock_runtime.engine.queue.disciplines import is_batch_work
from penstock_runtime.errors import RequestRejected
from penstock_runtime.request import Failed, RequestOutcome
from penstock_runtime.serving.admission.memory_budget import MemoryBudget
from penstock_runtime.serving.admission.queue_bound import QueueSlots
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.state import ServingState


class Admission(ABC):
    """Issues tickets and counts their outcomes; a subclass owns the engine's requests."""

    def __init__(self, state: ServingState, max_bytes: int) -> None:
        self._live = state.live
        self._health = state.health
        self._counters = state.counters
        self._now = state.now
        self._ids = count(1)
        self.memory = MemoryBudget(max_bytes, self.retry_after_seconds)
        self.slots = QueueSlots(state, self.waiting, self._waiting_below, self.retry_after_seconds)

    @contextmanager
    def receive(self, age_seconds: float = 0.0, priority: int = 0) -> Iterator[Ticket]:
        """Count a request that arrived `age_seconds` ago, and its outcome when the block ends.

        `priority` is its class as far as its head shows it.

        A rejection raised inside is counted under its reason, a cancellation (the client disconnected) frees
        the slot, and any other error counts as Failed; all are raised again.
        """
        ticket = self.open(self._now() - age_seconds)
        ticket.batch_work = is_batch_work(priority)
        try:
            yield ticket
        except RequestRejected as rejection:
            self.reject(ticket, rejection)
            raise
        except asyncio.CancelledError:
            self.cancel(ticket)
            raise
        except BaseException:
            self.fail(ticket)
            raise
        finally:
            self.depart(ticket)

    # -- the same in steps: `open`, then submit, or one of `reject`, `cancel` and `fail`; finally `depart`

    def open(self, arrived: float) -> Ticket:
        """Count an arrived request, and return its ticket."""
        self._counters.received += 1
        return Ticket(f"{next(self._ids):x}", arrived)

    def reject(self, ticket: Ticket, rejection: RequestRejected) -> None:
        """Count a rejection under its reason."""
        unread = not ticket.rows_counted and rejection.status in (429, 503)
        if unread and not ticket.batch_work:
            self._counters.count_unread_rows()
        if not ticket.left:
            ticket.left = True
            self._counters.of(batch_work=ticket.batch_work).rejected[rejection.reason] += 1

    def reject_unread(self, rejection: RequestRejected, priority: int = 0) -> None:
        """Count a request of the class `priority` that is rejected unread: `open`, `reject` and `depart` in one step."""
        batch_work = is_batch_work(priority)
        self._counters.received += 1
        if not batch_work:
            self._counters.count_unread_rows()
        self._counters.of(batch_work=batch_work).rejected[rejection.reason] += 1

    def count_rows(self, ticket: Ticket, rows: int, priority: int) -> None:
        """Count the rows of a request once its body is parsed; batch work counts none, because the law plans it separately."""
        ticket.rows_counted = True
        ticket.batch_work = is_batch_work(priority)
        if not ticket.batch_work:
            self._counters.count_rows(rows)

    def cancel(self, ticket: Ticket) -> None:
        """Cancel a request whose client disconnected."""
        self._withdraw(ticket.id)
        self._count_end(ticket, RequestOutcome.CANCELLED)

    def fail(self, ticket: Ticket) -> None:
        """Count a request that failed by an internal error."""
        self._count_end(ticket, RequestOutcome.FAILED)

    def depart(self, ticket: Ticket) -> None:
        """Release the slot and the bytes of `ticket`."""
        self.slots.release(ticket)
        self.memory.release(ticket)

    def _count_end(self, ticket: Ticket, outcome: RequestOutcome) -> None:
        if not ticket.left:
            ticket.left = True
            self._counters.of(batch_work=ticket.batch_work).ended[outcome] += 1

    # -- the engine's requests

    @abstractmethod
    def submitted(self) -> int:
        """Return how many requests the engine has."""

    @abstractmethod
    def owing_since(self) -> float | None:
        """Return the time since which the engine has always had requests; None: it has none."""

    @abstractmethod
    def fail_all(self, failed: Failed) -> None:
        """End all requests of the engine, which will not end them itself."""

    def elsewhere(self) -> int:
        """Return how many requests the engine has left to other pods, whose answers are still relayed."""
        return 0

    def fail_elsewhere(self, failed: Failed) -> None:  # noqa: B027 - only generations are continued elsewhere
        """End all requests that other pods continue."""

    @abstractmethod
    def retry_after_seconds(self) -> float:
        """Return the predicted time until the requests of the queue are served."""

    @abstractmethod
    def _withdraw(self, id: str) -> None:
        """Cancel a request in the engine, if it is there."""

    @abstractmethod
    def _waiting_below(self, priority: int) -> int:
        """Return how many waiting requests of a lower class than `priority` may be displaced."""

    def waiting(self) -> int:
        """Return how many requests wait: those of the engine that its last report does not count as running."""
        report = self._live.report
        running = report.running if report else 0
        return max(0, self.submitted() - running)

    @abstractmethod
    def _batch_work_waiting(self) -> int:
        """Return how many requests of batch work wait."""

    def load(self) -> PodLoad:
        """Return the numbers of waiting and running requests; batch work that waits is no demand, and is left out."""
        waiting = self.waiting()
        demand = max(0, waiting - self._batch_work_waiting())
        return PodLoad(waiting=demand, running=self.submitted() - waiting)

    def empty(self) -> bool:
        """Return whether no request is in the engine or prepared for it."""
        return not self.submitted() and not self.slots.reserved
