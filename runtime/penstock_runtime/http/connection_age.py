"""The maximum age of client connections, so that a plain Service spreads load over new replicas.

A keep-alive client never reaches replicas that joined after it connected (docs/design/control-law.md#connection-balance).
`Connection: close` on an answer therefore ends a connection after 20 s +- 50 % or 1,000 requests, and with the next answer
once the pod is stopping. Jitter keeps clients from reconnecting in step. Connections of a gateway, which balances requests,
do not age.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary


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
            age = self._open[key] = Age(ends_at, self._max_requests)
        return age
