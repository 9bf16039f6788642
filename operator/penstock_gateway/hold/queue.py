"""`HeldQueue`: the held requests of one pool, released by priority and arrival. Pure: no I/O, no clock.

A request that comes while pods are in force met none of them: all are ejected, or the last one just died. It waits for
`RECHECK_SECONDS`, since an immediate release would use up its retries.
"""

import heapq
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock_api import names
from penstock_api.hold import HoldLimits

RECHECK_SECONDS: Final = 1.0
GONE_SECONDS: Final = 5.0
"""Time in which a Service that was deleted may come back: the operator creates one that is missing."""
FIRST_GUESS_SECONDS: Final = 30.0
"""Assumed time to the first ready pod before one start was seen."""
FIRST_RELEASES: Final = 8
"""Requests to each pod in the first step after it came into force; each further step allows `RELEASE_GROWTH` times as many.

Hundreds at once pass Envoy and the pod together, so even the first answer would wait until both have handled them all.
"""
RELEASE_GROWTH: Final = 4
OPENING_SECONDS: Final = 0.25
"""Time after the first pod came into force for which steps follow fast."""
BATCH_CLASS: Final = names.BATCH_PRIORITY
"""Rank of batch work, which every other request precedes."""
LOWEST_CLASS: Final = BATCH_CLASS - 1
"""Rank of a request without a priority class, as in the pods."""


@dataclass(frozen=True, slots=True, order=True)
class HeldRequest:
    """A held request; they compare in the order of their release. Times are of the holder's clock."""

    rank: int
    """Priority class, from 1, the highest, to `BATCH_CLASS`."""
    arrived: float
    """Time of its arrival at the gateway, long before `entered` if a pod computed it and died."""
    number: int
    """Distinguishes requests, in the order in which they came to be held."""
    entered: float = field(compare=False)
    """Time at which Envoy began to hold it, for this or a former process."""
    timeout_seconds: float | None = field(default=None, compare=False)
    """The client's own limit, from the arrival on."""


class Refusal(StrEnum):
    """Why a request is not held any longer, or not at all."""

    FULL = "HoldFull"
    EXPIRED = "HoldExpired"
    DEADLINE = "DeadlinePassed"
    GONE = "PoolGone"


@dataclass(slots=True)
class HeldQueue:
    """The requests, by number, and the state of the pool."""

    limits: HoldLimits
    pods: int = 0
    """Pods that Envoy has in force."""
    opened_at: float | None = None
    """Time at which the first pod came into force; None while there is none."""
    start_seconds: float | None = None
    """Time from the first held request to the first pod, when that was last seen."""
    step: int = FIRST_RELEASES
    """Requests to each pod in the next step."""
    gone_at: float | None = None
    """Time at which the pool's Service was gone; None while it is there."""
    requests: dict[int, HeldRequest] = field(default_factory=dict)

    def opens(self, now: float) -> bool:
        """Return whether the first pod came into force a moment ago, so that steps are small and follow fast."""
        return self.opened_at is not None and now - self.opened_at < OPENING_SECONDS

    @property
    def since(self) -> float | None:
        """Return the time since which the request that waits longest is held; None without one."""
        return min((request.entered for request in self.requests.values()), default=None)

    def add(self, request: HeldRequest) -> bool:
        """Hold a request; return False beyond the bound."""
        if len(self.requests) >= self.limits.max_requests:
            return False
        self.requests[request.number] = request
        return True

    def remove(self, number: int) -> None:
        """Forget a request: its client left, or it has its answer."""
        self.requests.pop(number, None)

    def set_pods(self, pods: int, now: float) -> None:
        """Record the pods that Envoy has in force."""
        if pods and not self.pods:
            self.opened_at, self.step = now, FIRST_RELEASES
            if self.since is not None:
                self.start_seconds = max(now - self.since, 0.0)
        elif not pods:
            self.opened_at = None
        self.pods = pods

    def expired(self, now: float) -> list[tuple[HeldRequest, Refusal]]:
        """Return the requests that have waited too long, with the reason."""
        if self.gone_at is not None and now - self.gone_at >= GONE_SECONDS:
            return [(request, Refusal.GONE) for request in self.requests.values()]
        over = []
        for request in self.requests.values():
            timeout = request.timeout_seconds
            if timeout is not None and now - request.arrived >= timeout:
                over.append((request, Refusal.DEADLINE))
            elif now - request.entered >= self.limits.max_seconds:
                over.append((request, Refusal.EXPIRED))
        return over

    def releasable(self, at_pods: int, now: float) -> list[HeldRequest]:
        """Return the requests to release now, in order, if pods have `at_pods` requests in flight; the next step has more.

        One is released in any case: new requests reach the pods directly, and could keep them full.
        """
        opened = self.opened_at
        if opened is None:
            return []
        ripe = (
            request
            for request in self.requests.values()
            if request.entered <= opened or now - request.entered >= RECHECK_SECONDS
        )
        free = min(self.limits.per_pod * self.pods - at_pods, self.step * self.pods)
        self.step = min(self.step * RELEASE_GROWTH, self.limits.per_pod)
        return heapq.nsmallest(max(free, 1), ripe)

    def retry_seconds(self, now: float) -> float:
        """Return the expected time until the pool serves: that of the last start, less what has passed of this one."""
        if self.pods:
            return 1.0
        expected = FIRST_GUESS_SECONDS if self.start_seconds is None else self.start_seconds
        passed = 0.0 if self.since is None else now - self.since
        return max(expected - passed, 1.0)
