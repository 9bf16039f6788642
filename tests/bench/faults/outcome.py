"""Outcome of a fault, and the reasons for which its line fails."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self

from tests.bench.faults.fault import Fault, Right
from tests.support.load.report import Report

STARVED_MILLISECONDS = 3000.0
"""Send lag above which the generator had too little processor time, so that its connections may time out."""


@dataclass(frozen=True, slots=True)
class Valves:
    """Cap and replica count at one time."""

    second: float
    """Seconds since the start of the watch."""
    replicas: int
    """Replicas in the Deployment's spec."""
    cap: int


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """Counts of the load generator over a part of its run."""

    requests: int
    completed: int
    refused: int
    lost: int
    unreached: int
    """Number of lost requests that no connection could be opened for."""
    wrong: int
    worst_p99_milliseconds: float
    """Maximum over windows of five seconds."""
    send_lag_milliseconds: float = 0.0
    """Largest delay of a send, if it occurred in this part, else 0."""

    @classmethod
    def between(cls, reports: Sequence[Report]) -> Self:
        """Return the counts from the first report to the last."""
        first, last = reports[0], reports[-1]
        return cls(
            requests=last.sent - first.sent,
            completed=last.completed - first.completed,
            refused=last.refused - first.refused,
            lost=last.lost - first.lost,
            unreached=last.unreached - first.unreached,
            wrong=last.wrong - first.wrong,
            worst_p99_milliseconds=max(report.p99 or 0.0 for report in reports),
            send_lag_milliseconds=last.worst_send_lag
            if last.worst_send_lag > first.worst_send_lag
            else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Suffered:
    """Record of one injected fault."""

    fault: Fault
    served: ServedLoad
    valves: tuple[Valves, ...]
    """The initial values, and each change."""
    recovered_seconds: float | None
    """Seconds from the heal until the pool and its clients recovered and acknowledged a new edit; None if not in time."""
    restarts: int = 0
    """Number of restarts of the operator."""
    trouble: str = ""
    """Error of an injection or a recovery that did not finish in time."""


def wrong_way_moves(valves: Sequence[Valves], right: Right) -> int:
    """Count the moves that are wrong under a steady load.

    A move away from the initial value counts; a move back does not. A cap or count below the initial value is always
    wrong, and a count above it is wrong unless capacity was lost. A larger cap is the law's response to a queue.
    """
    first, wrong = valves[0], 0
    for before, now in pairwise(valves):
        wrong += now.cap < before.cap and now.cap < first.cap
        wrong += now.replicas < before.replicas and now.replicas < first.replicas
        grew = now.replicas > before.replicas and now.replicas > first.replicas
        wrong += grew and right is Right.NOTHING
    return wrong


def failures(result: Suffered) -> list[str]:
    """Return the reasons for which this line fails; empty if it passes."""
    served, reasons = result.served, []
    if served.completed == 0:
        reasons.append("nothing was served")
    if served.lost and not result.fault.takes_a_pod:
        reasons.append(f"{served.lost} lost, though no pod was taken")
    if served.wrong:
        reasons.append(f"{served.wrong} answered wrongly")
    if moves := wrong_way_moves(result.valves, result.fault.right):
        reasons.append(f"{moves} moves the wrong way")
    if result.recovered_seconds is None:
        reasons.append(f"not recovered: {result.trouble}")
    if served.send_lag_milliseconds > STARVED_MILLISECONDS:
        lag = served.send_lag_milliseconds / 1000
        reasons.append(
            f"the generator itself was {lag:.0f} s late: the machine is busy, the figures are invalid"
        )
    if result.restarts:
        reasons.append(f"the operator ended {result.restarts} times")
    return reasons


def as_json(result: Suffered) -> dict[str, Any]:
    """Return the line's record."""
    return {
        "fault": result.fault.name,
        "seconds": result.fault.seconds,
        **asdict(result.served),
        "wrong_way_moves": wrong_way_moves(result.valves, result.fault.right),
        "recovered_seconds": result.recovered_seconds,
        "valves": [asdict(each) for each in result.valves],
        "failures": failures(result),
    }
