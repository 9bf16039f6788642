"""Reports of the load generator: one JSON line a second, and a final one."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tests.support.load.tally import LoadOutcome, RequestTally, percentile


@dataclass(frozen=True, slots=True)
class Report:
    """Totals since the start, and latency in milliseconds over the last seconds (or all, at the end)."""

    second: float
    rate: float
    sent: int
    completed: int
    refused: int
    lost: int
    wrong: int
    in_flight: int
    p50: float | None
    p99: float | None
    final: bool = False
    pods: dict[str, int] = field(default_factory=dict)
    """Number of answers by serving pod, of any outcome."""
    notes: tuple[str, ...] = ()
    unreached: int = 0
    """Number of lost requests that no connection could be opened for."""
    worst_send_lag: float = 0.0
    """Largest delay of a send in milliseconds; a large one means that the generator had too little processor time."""

    def to_line(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str | bytes) -> Self:
        """Parse a line of `to_line`."""
        values: dict[str, Any] = json.loads(line)
        return cls(**{**values, "notes": tuple(values["notes"])})

    def shares_since(self, earlier: "Report") -> dict[str, float]:
        """Return each pod's share of the answers between two reports."""
        counts = {pod: count - earlier.pods.get(pod, 0) for pod, count in self.pods.items()}
        total = sum(counts.values())
        return {pod: count / total for pod, count in counts.items()} if total else {}


def report(
    tally: RequestTally, second: float, rate: float, now: float, *, final: bool = False
) -> Report:
    """Return a report of the present counts."""
    latencies = tally.latencies if final else tally.recent(now)
    return Report(
        second=round(second, 3),
        rate=rate,
        sent=tally.sent,
        completed=tally.outcomes[LoadOutcome.COMPLETED],
        refused=tally.outcomes[LoadOutcome.REFUSED],
        lost=tally.outcomes[LoadOutcome.LOST],
        wrong=tally.outcomes[LoadOutcome.WRONG],
        in_flight=tally.in_flight,
        p50=_milliseconds(percentile(latencies, 50)),
        p99=_milliseconds(percentile(latencies, 99)),
        final=final,
        pods=dict(tally.pods),
        notes=tuple(tally.notes),
        unreached=tally.unreached,
        worst_send_lag=round(tally.worst_send_lag * 1000, 1),
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
