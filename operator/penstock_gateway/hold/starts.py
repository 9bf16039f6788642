"""`StartTimes`: how long each part of a start from zero took for the first request that waited for it. Pure: no I/O, no clock.

A part ends when this gateway knows its end, so all are times of one clock, and they add up to the whole wait.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from penstock_api.hold import StartPart
from penstock_gateway.objects import WatchedPod

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600)
"""Upper bounds of the histogram, in seconds."""
SEEN_SECONDS: Final = 1.0
"""Time for which a request is held up to which its start counts as seen from its beginning: an older one was held by a former process."""
ORDER: Final = tuple(StartPart)


def progress(pods: Iterable[WatchedPod]) -> int:
    """Return how many parts of a start are over, by the furthest of a pool's pods; at most `MODEL` is among them."""
    return max(map(_progress, pods), default=0)


def _progress(pod: WatchedPod) -> int:
    if pod.serves:
        return ORDER.index(StartPart.MODEL) + 1
    if pod.leaves:
        return 0
    if pod.runs:
        return ORDER.index(StartPart.CONTAINER) + 1
    return ORDER.index(StartPart.SCHEDULING) + 1 if pod.scheduled else 1


@dataclass(slots=True)
class Durations:
    """A histogram of one part of a pool's starts."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0
    """Sum of all."""

    def add(self, seconds: float) -> None:
        """Count a start."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


@dataclass(frozen=True, slots=True)
class LastStart:
    """The parts of a pool's last start, in seconds."""

    ended: float
    """Unix seconds."""
    parts: Mapping[StartPart, float]

    def as_json(self) -> dict[str, Any]:
        """Return the start in the words of `/status`."""
        return {
            "ended": round(self.ended, 3),
            "seconds": {part.value: round(seconds, 3) for part, seconds in self.parts.items()},
        }


@dataclass(slots=True)
class StartTimes:
    """The starts of all pools, by pool; times are of the holder's clock."""

    durations: dict[tuple[str, StartPart], Durations] = field(default_factory=dict)
    last: dict[str, LastStart] = field(default_factory=dict)
    under_way: dict[str, list[float]] = field(default_factory=dict)
    """The time since which the first request is held, and the ends of the parts that are over, in order."""

    def begin(self, pool: str, entered: float, now: float) -> None:
        """Record the first request that is held; one that a former process held has no parts that this one saw."""
        self.under_way.pop(pool, None)
        if now - entered <= SEEN_SECONDS:
            self.under_way[pool] = [entered]

    def drop(self, pool: str) -> None:
        """Forget a start that no request waits for any longer."""
        self.under_way.pop(pool, None)

    def keep(self, pools: Set[str]) -> None:
        """Forget all other pools: a later one of the same name is another pool."""
        for gone in self.last.keys() - pools:
            del self.last[gone]
        for gone in self.under_way.keys() - pools:
            del self.under_way[gone]
        for key in [key for key in self.durations if key[0] not in pools]:
            del self.durations[key]

    def reach(self, pool: str, parts: int, now: float) -> None:
        """Record that so many parts are over; those not seen to end before it took no time of their own."""
        ends = self.under_way.get(pool)
        if ends is None:
            return
        ends.extend([now] * (parts + 1 - len(ends)))
        if len(ends) <= len(ORDER):
            return
        del self.under_way[pool]
        seconds = [max(end - begin, 0.0) for begin, end in pairwise(ends)]
        self.last[pool] = LastStart(now, dict(zip(ORDER, seconds, strict=True)))
        for part, taken in self.last[pool].parts.items():
            self.durations.setdefault((pool, part), Durations()).add(taken)
