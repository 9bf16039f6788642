"""Counts of finished requests by outcome, with latencies."""

from bisect import insort
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

WINDOW_SECONDS = 5.0
"""Window of the percentiles of a report; a single second can have too few requests."""
NOTES_KEPT = 20


class LoadOutcome(StrEnum):
    """Outcome of a sent request as seen by its client."""

    COMPLETED = "completed"
    REFUSED = "refused"
    """429 or 503 with Retry-After, which is proper back-pressure."""
    LOST = "lost"
    """No answer, a connection error (nothing is sent twice), or a 5xx other than 503 with Retry-After."""
    WRONG = "wrong"
    """An incorrect answer: a wrong value, or a 4xx to a correct request."""


def outcome_of(status: int, *, retry_after: bool, correct: bool) -> LoadOutcome:
    """Return the outcome of an answered request."""
    if status == 200:
        return LoadOutcome.COMPLETED if correct else LoadOutcome.WRONG
    if status in (429, 503) and retry_after:
        return LoadOutcome.REFUSED
    return LoadOutcome.LOST if status >= 500 else LoadOutcome.WRONG


def percentile(ascending: Sequence[float], percent: float) -> float | None:
    """Return the nearest-rank percentile, or None without values."""
    if not ascending:
        return None
    rank = max(1, -(-len(ascending) * percent // 100))
    return ascending[int(rank) - 1]


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """A finished request. Latency counts from the intended time, so that delays of the generator are included."""

    intended: float
    ended: float
    outcome: LoadOutcome
    pod: str = ""
    note: str = ""
    """Reason for a lost or wrong request."""
    reached: bool = True
    """False if no connection could be opened: nothing was sent, and a retry is safe."""

    @property
    def latency(self) -> float:
        """Return seconds from the intended time to the end."""
        return self.ended - self.intended


@dataclass(slots=True)
class RequestTally:
    """Counts since the start, and the requests of the last seconds."""

    sent: int = 0
    outcomes: Counter[LoadOutcome] = field(default_factory=Counter)
    pods: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    """Latencies of completed requests in seconds, ascending."""
    notes: list[str] = field(default_factory=list)
    unreached: int = 0
    """Number of lost requests that no connection could be opened for."""
    worst_send_lag: float = 0.0
    _recent: deque[FinishedRequest] = field(default_factory=deque)

    def send(self, lag: float) -> None:
        """Count a request that leaves `lag` seconds after its intended time."""
        self.sent += 1
        self.worst_send_lag = max(self.worst_send_lag, lag)

    def end(self, request: FinishedRequest) -> None:
        """Count a request's end."""
        self.outcomes[request.outcome] += 1
        self.unreached += not request.reached
        if request.pod:
            self.pods[request.pod] += 1
        if request.outcome is LoadOutcome.COMPLETED:
            insort(self.latencies, request.latency)
            self._recent.append(request)
        if request.note and len(self.notes) < NOTES_KEPT:
            self.notes.append(f"{request.outcome} {request.pod} {request.note}".replace("  ", " "))

    @property
    def in_flight(self) -> int:
        """Return the number of requests that have not ended."""
        return self.sent - self.outcomes.total()

    def recent(self, now: float) -> list[float]:
        """Return the ascending latencies of the requests that completed in the last window."""
        while self._recent and self._recent[0].ended < now - WINDOW_SECONDS:
            self._recent.popleft()
        return sorted(request.latency for request in self._recent)
