"""The maximum age of client connections, so that a plain Service spreads load over new replicas.

A keep-alive client never reaches replicas that joined after it connected (docs/design/control-law.md#connection-balance).
`Connection: close` on an answer therefore ends a connection after 20 s +- 50 % or 10 to 1,000 requests, and with the next
answer once the pod is stopping. Few clients send many requests each, so theirs end sooner; an age by the number of open
connections would keep pods with many of them overloaded. Jitter keeps clients from reconnecting in step. Connections of a gateway, which balances requests,
do not age.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Final
from weakref import WeakKeyDictionary

MIN_REQUESTS, MAX_REQUESTS = 10, 1000
CONNECT_SECONDS: Final = 0.001
"""Processor time of a new connection with a margin: 0.35 ms without TLS."""
CONNECT_SHARE: Final = 0.02
"""Maximum cost of a new connection, as a share of the device time of the requests that the previous one carried."""


def requests_of_connection(request_seconds: float) -> int:
    """Return after how many requests, of so many seconds of device time on average, a connection ends."""
    budget = CONNECT_SHARE * request_seconds
    if budget * MAX_REQUESTS <= CONNECT_SECONDS:
        return MAX_REQUESTS
    return max(ceil(CONNECT_SECONDS / budget), MIN_REQUESTS)


@dataclass(slots=True)
class Age:
    """The remaining time and requests of one connection."""

    ends_at: float
    requests_left: int

    def count_request(self, now: float) -> bool:
        """Count one request; return whether its answer is the connection's last."""
        self.requests_left -= 1
        return now >= self.ends_at or self.requests_left <= 0


class AgingConnections:
    """The ages of open client connections, keyed by an object that lives as long as the connection."""

    def __init__(
        self,
        age_seconds: float,
        max_requests: Callable[[], int],
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`max_requests` is called for each new connection."""
        self._age_seconds = age_seconds
        self._max_requests = max_requests
        self._draw = draw
        self._open: WeakKeyDictionary[object, Age] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._open)

    def count_request(self, transport: asyncio.BaseTransport | None, now: float) -> bool:
        """Count one request; return whether its answer is the connection's last."""
        if transport is None:
            return True
        return self.age_of(transport, now).count_request(now)

    def age_of(self, transport: asyncio.BaseTransport, now: float) -> Age:
        """Return the age of a connection, which starts at the first call."""
        # uvloop's TLS transports support no weak references
        key = transport.get_extra_info("ssl_object") or transport
        age = self._open.get(key)
        if age is None:
            ends_at = now + self._age_seconds * (0.5 + self._draw())
            age = self._open[key] = Age(ends_at, self._max_requests())
        return age
