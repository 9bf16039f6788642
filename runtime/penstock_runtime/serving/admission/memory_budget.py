"""`MemoryBudget`: the bytes that requests and unread answers hold, and their limit."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

from penstock_runtime.errors import MemoryFull, TooLarge
from penstock_runtime.serving.admission.ticket import Ticket

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


UNREAD_TOKENS_SHARE: Final = 4
"""The bytes that requests may hold, divided by those that unread tokens may: paused streams keep out no requests."""


class Droppable(Protocol):
    """Holds unread tokens that can be dropped."""

    def drop(self) -> None:
        """Drop all of them, and set their size to 0."""


class UnreadTokens:
    """The memory of the tokens that clients have not read; beyond its limit, the client with the most loses them."""

    __slots__ = ("_bytes", "_count", "_max_bytes", "_sizes")

    def __init__(self, count: Callable[[int], None], max_bytes: int) -> None:
        """`count` takes each change of the bytes."""
        self._count = count
        self._max_bytes = max_bytes
        self._sizes: dict[Droppable, int] = {}
        self._bytes = 0

    def resize(self, tokens: Droppable, size: int) -> None:
        """Set the bytes of one client's tokens, which may be dropped meanwhile."""
        more = size - self._sizes.pop(tokens, 0)
        if size:
            self._sizes[tokens] = size
        self._bytes += more
        self._count(more)
        if self._bytes > self._max_bytes:
            max(self._sizes, key=self._sizes.__getitem__).drop()


class MemoryBudget:
    """Counts held bytes against the limit of the pod."""

    __slots__ = ("_max_bytes", "_retry_after_seconds", "held_bytes", "unread_tokens")

    def __init__(self, max_bytes: int, retry_after_seconds: Callable[[], float]) -> None:
        self._max_bytes = max_bytes
        self._retry_after_seconds = retry_after_seconds
        self.held_bytes = 0
        self.unread_tokens = UnreadTokens(self.hold_unread, max_bytes // UNREAD_TOKENS_SHARE)

    def hold(self, ticket: Ticket, size: int) -> None:
        """Set the bytes of `ticket`: the announced size of its body, then the size of what was read or decoded.

        Raises:
            MemoryFull: all requests together would hold more than the limit.
            TooLarge: this request alone would.
        """
        others = self.held_bytes - ticket.bytes
        if others + size > self._max_bytes:
            self._check_alone(size)
            raise self._full(others, self._max_bytes, size)
        self.held_bytes += size - ticket.bytes
        ticket.bytes = size

    def _full(self, others: int, limit: int, size: int) -> MemoryFull:
        return MemoryFull(
            f"other requests hold {others} of {limit} bytes, and this one needs {size}: try again later, or"
            " send and request less",
            retry_after_seconds=self._retry_after_seconds(),
        )

    def _check_alone(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(
                f"this request needs {size} bytes, more than the {self._max_bytes} that all requests of this pod may hold:"
                " send or request less, or raise PENSTOCK_MAX_HELD_BYTES",
                field="body",
            )

    def hold_more(self, ticket: Ticket, more_bytes: int) -> None:
        """Add `more_bytes` to those of `ticket`.

        Raises:
            MemoryFull, TooLarge: as `hold`.
        """
        self.hold(ticket, ticket.bytes + more_bytes)

    def grow(self, ticket: Ticket, more_bytes: int) -> None:
        """Add `more_bytes` of an answer that is generated to the bytes of `ticket`, beyond the limit if need be.

        Requests that fill the memory are rejected and end no answer that runs: answers have a reserve as large as the
        limit, of which unread answers may take half. It is bounded, because answers with log-probabilities that are small
        when they are admitted may take a hundred times as much at their end.

        Raises:
            MemoryFull: all requests together would hold more than twice the limit.
            TooLarge: this request alone would hold more than the limit.
        """
        if not more_bytes:
            return
        size, others, limit = (
            ticket.bytes + more_bytes,
            self.held_bytes - ticket.bytes,
            2 * self._max_bytes,
        )
        self._check_alone(size)
        if others + size > limit:
            raise self._full(others, limit, size)
        self.held_bytes += more_bytes
        ticket.bytes = size

    def holding(self, ticket: Ticket) -> "Hold":
        """Return the `Hold` of `ticket`."""
        return Hold(self, ticket)

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
            MemoryFull, TooLarge: as `hold`.
        """
        ticket = Ticket("", 0.0)
        self.hold(ticket, size)
        return partial(self.release, ticket)

    @contextmanager
    def hold_meanwhile(self) -> Iterator["Hold"]:
        """Yield a `Hold` for a request that the pod answers without its engine and does not count."""
        ticket = Ticket("", 0.0)
        try:
            yield self.holding(ticket)
        finally:
            self.release(ticket)


class Hold:
    """The bytes that one request holds."""

    __slots__ = ("_memory", "_ticket")

    def __init__(self, memory: MemoryBudget, ticket: Ticket) -> None:
        self._memory = memory
        self._ticket = ticket

    def __call__(self, size: int) -> None:
        """Set the bytes of the request, before it takes more.

        Raises:
            MemoryFull, TooLarge: as `MemoryBudget.hold`.
        """
        self._memory.hold(self._ticket, size)

    async def in_thread(
        self,
        work: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **more: Arguments.kwargs,
    ) -> Result:
        """Return the result of `work`, which runs in a thread.

        If the request is cancelled meanwhile, its bytes are released once the thread has ended or skipped the work:
        until then the thread, or its queue, keeps the arguments.
        """
        apart = Ticket("", 0.0, bytes=self._ticket.bytes)
        self._ticket.bytes = 0

        def run() -> Result | None:
            return None if result.cancelled() else work(*arguments, **more)

        def ended(_thread: object) -> None:
            if not result.cancelled():
                self._ticket.bytes += apart.bytes
                apart.bytes = 0
            self._memory.release(apart)

        thread = asyncio.ensure_future(asyncio.to_thread(run))
        thread.add_done_callback(ended)
        result = asyncio.shield(thread)
        try:
            return await result  # type: ignore[return-value]  # None is no result: the request is cancelled
        except Exception:
            del thread, result  # a cycle: the traceback of their exception has this frame
            raise
