"""When a request came that is read now: a deadline counts from there, not from when we got round to reading.

A request lies in its socket while its connection rests, and while the whole process stands still (a processor quota
that is spent, a node that is overcommitted). The kernel knows for how long, but asking costs a system call. So it is
asked only after a rest, or when the loop has not been seen turning lately; a beat sees that, as long as requests come.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock_runtime.protocols.common.socket_age import seconds_in_socket

TICK_SECONDS: Final = 0.01
STALL_SECONDS: Final = 0.03
"""Since the last beat: what was read within it lay no longer than it, which no deadline is the worse for."""


class ArrivalClock:
    """Owns when the loop was last seen turning."""

    def __init__(
        self,
        call_later: Callable[..., object],
        now: Callable[[], float],
        ask: Callable[[asyncio.BaseTransport | None], float] = seconds_in_socket,
    ) -> None:
        self._call_later = call_later
        self._now = now
        self._ask = ask
        self._fresh_until = float("-inf")
        self._beating = False
        self._heard = False
        """Whether something was read since the last beat."""

    def holds(self, now: float) -> bool:
        """Return whether what is read at `now` came just now, unless its connection rested: the loop turns."""
        self._heard = True
        return now <= self._fresh_until

    def came(self, transport: asyncio.BaseTransport | None, now: float) -> float:
        """Return when what is read at `now` came, by its socket."""
        self._heard = True
        if not self._beating:
            self._beating = True
            self._call_later(0.0, self._beat)
        return now - self._ask(transport)

    def _beat(self) -> None:
        self._beating, self._heard = self._heard, False
        self._fresh_until = self._now() + STALL_SECONDS if self._beating else float("-inf")
        if self._beating:
            self._call_later(TICK_SECONDS, self._beat)
