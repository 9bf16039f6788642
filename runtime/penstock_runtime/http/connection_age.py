"""The age of client connections: closed politely after a while, so that a plain Service spreads load.

A keep-alive client never meets the replicas that joined after it connected (docs/design/control-law.md#connection-balance). So a
connection is closed, by `Connection: close` on an answer, at 20 s +- 50 % or after 1,000 requests, and
with the next answer once the pod is told to stop. Jitter keeps clients from reconnecting in step.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary


@dataclass(slots=True)
class Age:
    """When one connection is to close."""

    ends_at: float
    requests_left: int

    def count_request(self, now: float) -> bool:
        """Count one request; return whether its answer is to be the connection's last."""
        self.requests_left -= 1
        return now >= self.ends_at or self.requests_left <= 0


class AgingConnections:
    """Owns when each open client connection is to close; knows them by what lives as long as they do."""

    def __init__(
        self,
        age_seconds: float,
        max_requests: int,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._age_seconds = age_seconds
        self._max_requests = max_requests
        self._draw = draw
        self._open: WeakKeyDictionary[object, Age] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._open)

    def count_request(self, transport: asyncio.BaseTransport | None, now: float) -> bool:
        """Count one request; return whether its answer is to be the connection's last."""
        if transport is None:
            return True
        return self.age_of(transport, now).count_request(now)

    def age_of(self, transport: asyncio.BaseTransport, now: float) -> Age:
        """Return the age of a connection, which begins with the first call for it."""
        # uvloop's transports over TLS take no weak references
        lasting = transport.get_extra_info("ssl_object") or transport
        age = self._open.get(lasting)
        if age is None:
            ends_at = now + self._age_seconds * (0.5 + self._draw())
            age = self._open[lasting] = Age(ends_at, self._max_requests)
        return age
