"""What came of a fault, and whether that is as it must be. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self

from tests.bench.faults.fault import Fault, Right
from tests.support.load.report import Report

STARVED_MILLISECONDS = 3000.0
"""A generator that is later than this had no processor; its connections may then time out of themselves."""


@dataclass(frozen=True, slots=True)
class Valves:
    """How the two valves stood at one moment."""

    second: float
    """Since they were watched."""
    replicas: int
    """As the Deployment asks for."""
    cap: int


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """What the load generator counted over a stretch of its run."""

    requests: int
    completed: int
    refused: int
    lost: int
    unreached: int
    """Of the lost: those that had no connection to be sent on."""
    wrong: int
    worst_p99_milliseconds: float
    """Of any five seconds."""
    send_lag_milliseconds: float = 0.0
    """How late a request left at worst; told only where this stretch was the worst so far."""

    @classmethod
    def between(cls, reports: Sequence[Report]) -> Self:
        """Return what was counted from the first report to the last."""
        first, last = reports[0], reports[-1]
        return cls(
            requests=last.sent - first.sent,
            completed=last.completed - first.completed,
            refused=last.refused - first.refused,
            lost=last.lost - first.lost,
            unreached=last.unreached - first.unreached,
            wrong=last.wrong - first.wrong,
            worst_p99_milliseconds=max(one.p99 or 0.0 for one in reports),
            send_lag_milliseconds=last.worst_send_lag
            if last.worst_send_lag > first.worst_send_lag
            else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Suffered:
    """What was recorded of one fault."""

    fault: Fault
    served: ServedLoad
    valves: tuple[Valves, ...]
    """The first one, and each change."""
    recovered_seconds: float | None
    """From the heal until the pool and its clients are as before and obey a new edit; None: not in time."""
    restarts: int = 0
    """Of the operator."""
    trouble: str = ""
    """What did not come about in time: the fault, or the recovery."""


def wrong_way_moves(valves: Sequence[Valves], right: Right) -> int:
    """Count the moves that a steady load does not call for.

    Away from where it stood is what counts; coming back is right. A cap or a count below the first is always wrong,
    a count above it unless capacity was gone. A larger cap is what the law gives a queue, and takes nothing away.
    """
    first, wrong = valves[0], 0
    for before, now in pairwise(valves):
        wrong += now.cap < before.cap and now.cap < first.cap
        wrong += now.replicas < before.replicas and now.replicas < first.replicas
        grew = now.replicas > before.replicas and now.replicas > first.replicas
        wrong += grew and right is Right.NOTHING
    return wrong


def failures(one: Suffered) -> list[str]:
    """Return why this line of the table is not as it must be; nothing when it is."""
    served, found = one.served, []
    if served.completed == 0:
        found.append("nothing was served")
    if served.lost and not one.fault.takes_a_pod:
        found.append(f"{served.lost} lost, though no pod was taken")
    if served.wrong:
        found.append(f"{served.wrong} answered wrongly")
    if moves := wrong_way_moves(one.valves, one.fault.right):
        found.append(f"{moves} moves the wrong way")
    if one.recovered_seconds is None:
        found.append(f"not recovered: {one.trouble}")
    if served.send_lag_milliseconds > STARVED_MILLISECONDS:
        lag = served.send_lag_milliseconds / 1000
        found.append(
            f"the generator itself was {lag:.0f} s late: a busy machine, believe no figure"
        )
    if one.restarts:
        found.append(f"the operator ended {one.restarts} times")
    return found


def as_json(one: Suffered) -> dict[str, Any]:
    """Return the line's record."""
    return {
        "fault": one.fault.name,
        "seconds": one.fault.seconds,
        **asdict(one.served),
        "wrong_way_moves": wrong_way_moves(one.valves, one.fault.right),
        "recovered_seconds": one.recovered_seconds,
        "valves": [asdict(each) for each in one.valves],
        "failures": failures(one),
    }
