"""`MemoryBudget`: the bytes that requests and unread answers hold, and their limit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from penstock_runtime.errors import MemoryFull
from penstock_runtime.serving.admission.ticket import Ticket

Hold = Callable[[int], None]
"""Sets the bytes that a request holds, before it takes more; raises MemoryFull."""


class MemoryBudget:
    """Counts held bytes against the limit of the pod."""

    __slots__ = ("_max_bytes", "_retry_after_seconds", "held_bytes")

    def __init__(self, max_bytes: int, retry_after_seconds: Callable[[], float]) -> None:
        self._max_bytes = max_bytes
        self._retry_after_seconds = retry_after_seconds
        self.held_bytes = 0

    def hold(self, ticket: Ticket, size: int) -> None:
        """Set the bytes of `ticket`: the announced size of its body, then the size of what was read or decoded.

        Raises:
            MemoryFull: all requests together would hold more than the limit.
        """
        others = self.held_bytes - ticket.bytes
        if others + size > self._max_bytes:
            raise MemoryFull(
                f"other requests hold {others} of {self._max_bytes} bytes, and this one needs {size}: try again later, or"
                " send and request less",
                retry_after_seconds=self._retry_after_seconds(),
            )
        self.held_bytes += size - ticket.bytes
        ticket.bytes = size

    def hold_more(self, ticket: Ticket, more_bytes: int) -> None:
        """Add `more_bytes` to those of `ticket`.

        Raises:
            MemoryFull: as `hold`.
        """
        self.hold(ticket, ticket.bytes + more_bytes)

    def holding(self, ticket: Ticket) -> Hold:
        """Return `hold` of `ticket`."""
        return partial(self.hold, ticket)

    def release(self, ticket: Ticket) -> None:
        """Release all bytes of `ticket`."""
        self.held_bytes -= ticket.bytes
        ticket.bytes = 0

    def hold_unread(self, more_bytes: int) -> None:
        """Count `more_bytes` of answers that clients have not read; a negative number releases bytes."""
        self.held_bytes += more_bytes

    def hold_apart(self, size: int) -> Callable[[], None]:
        """Hold `size` bytes of work that outlives its request; call the returned function once to release them.

        Raises:
            MemoryFull: as `hold`.
        """
        ticket = Ticket("", 0.0)
        self.hold(ticket, size)
        return partial(self.release, ticket)

    @contextmanager
    def hold_meanwhile(self) -> Iterator[Hold]:
        """Yield a `Hold` for a request that the pod answers without its engine and does not count."""
        ticket = Ticket("", 0.0)
        try:
            yield self.holding(ticket)
        finally:
            self.release(ticket)
