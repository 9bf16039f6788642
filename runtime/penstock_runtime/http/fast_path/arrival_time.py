"""Arrival times of requests: a deadline counts from when the bytes arrived, not from when the event loop read them.

A request waits in its socket while its connection is throttled, and while the whole process stalls (an exhausted CPU
quota, an overcommitted node). The kernel knows for how long, at the price of a system call. The clock therefore makes that
call only after a throttle, or when the event loop has not been seen to turn recently; while requests arrive, a timer
watches the loop.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock_runtime.protocols.common.socket_age import seconds_in_socket

TICK_SECONDS: Final = 0.01
STALL_SECONDS: Final = 0.03
"""The time after a tick within which bytes count as read on arrival: no deadline suffers from so short a wait."""


class ArrivalClock:
    """The time until which the event loop counts as turning."""

    def __init__(
        self,
        call_later: Callable[..., object],
        now: Callable[[], float],
        age: Callable[[asyncio.BaseTransport | None], float] = seconds_in_socket,
    ) -> None:
        """`age` returns for how many seconds the last bytes of a transport have been in its socket."""
        self._call_later = call_later
        self._now = now
        self._age = age
        self._current_until = float("-inf")
        self._ticking = False
        self._read = False
        """Whether a request was read since the last tick."""

    def is_current(self, now: float) -> bool:
        """Return whether bytes read at `now` have just arrived, unless their connection was throttled."""
        self._read = True
        return now <= self._current_until

    def arrival_of(self, transport: asyncio.BaseTransport | None, now: float) -> float:
        """Return when the bytes read at `now` arrived, by the kernel's record of the socket."""
        self._read = True
        if not self._ticking:
            self._ticking = True
            self._call_later(0.0, self._tick)
        return now - self._age(transport)

    def _tick(self) -> None:
        self._ticking, self._read = self._read, False
        self._current_until = self._now() + STALL_SECONDS if self._ticking else float("-inf")
        if self._ticking:
            self._call_later(TICK_SECONDS, self._tick)
