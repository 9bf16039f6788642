"""The demo's record of one second: load, pool and pods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.load.report import Report


@dataclass(frozen=True, slots=True)
class Moment:
    """A row of the live table. None is unknown, which is not zero."""

    second: int
    act: str
    rate: float
    p99: float | None
    """Latency in milliseconds over the answers of the last seconds."""
    sent: int
    refused: int
    lost: int
    waiting: float | None
    duty: float | None
    """Mean GPU utilization of the pods, from 0 to 1."""
    cap: int | None
    ready: int
    wanted: int
    decided: str
    why: str


@dataclass(frozen=True, slots=True)
class Gauges:
    """Prometheus gauges of the pool's pods."""

    waiting: float | None = None
    duty: float | None = None


def moment(second: int, act: str, load: Report, pool: Mapping[str, Any], gauges: Gauges) -> Moment:
    """Return the record of one second; `pool` is the InferencePool object."""
    status = pool.get("status", {})
    decision = status.get("lastDecision", {})
    return Moment(
        second=second,
        act=act,
        rate=load.rate,
        p99=load.p99,
        sent=load.sent,
        refused=load.refused,
        lost=load.lost + load.wrong,
        waiting=gauges.waiting,
        duty=gauges.duty,
        cap=status.get("batch", {}).get("cap"),
        ready=status.get("readyReplicas", 0),
        wanted=status.get("replicas", 0),
        decided=_decided(decision),
        why=decision.get("message", ""),
    )


def _decided(decision: Mapping[str, Any]) -> str:
    if not decision:
        return ""
    return f"cap {decision.get('cap')} {decision.get('capTerm')}, n {decision.get('replicas')} {decision.get('replicasTerm')}"
