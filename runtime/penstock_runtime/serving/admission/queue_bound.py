"""`QueueSlots`: the bound of the queue, and the slots of requests that are prepared for it."""

from collections.abc import Callable

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.queue.disciplines import LOWEST_CLASS, is_batch_work
from penstock_runtime.errors import QueueFull
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.state import ServingState


class QueueSlots:
    """Bounds the requests that wait or are prepared by `maxQueueDepth`."""

    __slots__ = (
        "_displacing",
        "_health",
        "_live",
        "_retry_after_seconds",
        "_waiting",
        "_waiting_below",
        "reserved",
    )

    def __init__(
        self,
        state: ServingState,
        waiting: Callable[[], int],
        waiting_below: Callable[[int], int],
        retry_after_seconds: Callable[[], float],
    ) -> None:
        """`waiting` counts waiting requests, `waiting_below` those of a class lower than the given one."""
        self._live = state.live
        self._health = state.health
        self._waiting = waiting
        self._waiting_below = waiting_below
        self._retry_after_seconds = retry_after_seconds
        self.reserved = 0
        """Slots of requests whose body was read and that are not submitted yet."""
        self._displacing = 0
        """Reserved slots beyond the bound."""

    def full(self) -> bool:
        """Return whether the waiting and prepared requests reach the bound."""
        return self._waiting() + self.reserved >= self._live.accepted.max_queue_depth

    def may_displace(self, priority: int) -> bool:
        """Return whether a request of this class may displace a waiting one from a full queue."""
        if self._live.accepted.discipline is not Discipline.PRIORITY:
            return False
        return self._waiting_below(priority) > self._displacing

    def check_slot(self, priority: int = LOWEST_CLASS) -> None:
        """Check that the queue has room for a request of this class, before its body is read.

        Raises:
            NotServing: the pod takes no requests.
            QueueFull: the queue is full of requests of this or a better class.
        """
        self._health.check_serving()
        if self.full() and not self.may_displace(priority):
            raise self.queue_full()

    def reserve_slot(self, ticket: Ticket, priority: int = LOWEST_CLASS) -> None:
        """Reserve a slot for a request whose whole body was read: a slow sender has none. Raises as `check_slot`."""
        ticket.batch_work = ticket.batch_work or is_batch_work(priority)
        self.check_slot(priority)
        ticket.displaces = self.full()
        self._displacing += ticket.displaces
        self.reserved += 1
        ticket.placed = True

    def release(self, ticket: Ticket) -> None:
        """Release the reserved slot of `ticket`, if it has one."""
        if ticket.placed:
            ticket.placed = False
            self.reserved -= 1
            self._displacing -= ticket.displaces
            ticket.displaces = False

    def displacement_needed(self) -> bool:
        """Return whether a request with a slot beyond the bound must still displace another."""
        return self._waiting() + self.reserved - 1 >= self._live.accepted.max_queue_depth

    def queue_full(self) -> QueueFull:
        """Return the rejection of a request for which the queue has no room."""
        depth = self._live.accepted.max_queue_depth
        return QueueFull(
            f"{depth} requests wait already, as many as maxQueueDepth allows: try again later",
            retry_after_seconds=self._retry_after_seconds(),
        )
