"""`OfferedCounter`: the rate of a pool's requests, from the counters of its gateway's pods. Pure: no I/O, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock_operator.observed import OfferedDemand

RECENT_SECONDS: Final = 15.0
WINDOW_SECONDS: Final = 30.0
RECENT_READS: Final = 3
"""Reads that a rate needs."""
MAX_SPAN_SECONDS: Final = 180.0
"""Maximum length of the window: six of the 30 s ticks of an idle pool."""
MIN_SPACING_SECONDS: Final = 0.5


@dataclass(slots=True)
class OfferedCounter:
    """The reads of one pool. A counter that fell started at 0 since the read before, as did that of a new pod."""

    _last: Mapping[str, int] = field(default_factory=dict)
    """The counters of the newest read, by the name of the gateway's pod."""
    _seen: set[str] = field(default_factory=set)
    """Pods that any read had."""
    _since: float | None = None
    """Time of the first read."""
    _total: int = 0
    _reads: tuple[tuple[float, int], ...] = ()
    """(time, requests since the first read), oldest first."""

    def record(self, counters: Mapping[str, int], created: Mapping[str, float], now: float) -> None:
        """Record the counters of all ready pods of the gateway, which were created at these times, in Unix seconds.

        A pod that was not ready at the read before counts from this one, unless it is new since the first read: requests
        of minutes would be demand of one tick.
        """
        self._since = now if self._since is None else self._since
        for pod, count in counters.items():
            new = pod not in self._seen and created[pod] > self._since
            before = self._last.get(pod, 0 if new else count)
            self._total += count - before if count >= before else count
        self._last = counters
        self._seen.update(counters)
        recent = tuple(read for read in self._reads if 0 <= now - read[0] <= MAX_SPAN_SECONDS)
        if not recent or now - recent[-1][0] >= MIN_SPACING_SECONDS:
            self._reads = (*recent, (now, self._total))

    def rate(self) -> OfferedDemand | None:
        """Return the rate over the last reads; None with too few of them."""
        if len(self._reads) < RECENT_READS:
            return None
        return OfferedDemand(
            self._over(RECENT_SECONDS), _between(*self._reads[-2:]), self._over(WINDOW_SECONDS)
        )

    def _over(self, seconds: float) -> float:
        """Return the rate over the last `seconds`, or over `RECENT_READS` reads if they are longer."""
        newest, oldest = self._reads[-1], self._reads[-RECENT_READS]
        for read in reversed(self._reads[:-RECENT_READS]):
            if newest[0] - read[0] > seconds + MIN_SPACING_SECONDS:
                break
            oldest = read
        return _between(oldest, newest)


def _between(first: tuple[float, int], last: tuple[float, int]) -> float:
    return (last[1] - first[1]) / (last[0] - first[0])
