"""Latency of a pool, and where a router spreads each request over the pods: the queues of all pods are then one. Pure.

Such pods have equal queues, so only the fluctuations of all demand together delay a request. In heavy traffic the backlog of a
queue beyond its typical one is exponential, with the mean dispersion / (2 (1 - rho)) in rows (Kingman 1962, "On queues in
heavy traffic"). A request is late if it meets more than the pool serves within the time that its own batches leave. This
overstates lateness where arrivals are clumped, and a router does no worse than an even random split: the lower share counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

from penstock_operator.decide.scaling.capacity_at_objective.latency import predict
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import (
    LateShares,
    TrafficShape,
)
from penstock_operator.decide.scaling.law import PoolTraffic, RequestSpread

BATCHES = {RequestSpread.LEAST_REQUEST: 2.0, RequestSpread.CENTRAL_QUEUE: 1.0}
"""Batches that pass while a request is served: its own, and the running one of the pod that it waits at."""
P99 = log(100)


@dataclass(frozen=True, slots=True)
class PooledQueue:
    """A pool whose requests a router spreads. Times are in tails of t(cap)."""

    spread: RequestSpread
    rows: float
    """The cap times the number of pods: the rows that the pool serves in t(cap)."""
    intercept: float
    """I = a / t(cap)."""
    dispersion: float
    """Variance / mean of all arrivals, in rows, above 0."""
    limit: float = 0.0
    """Latency from which on a request is late."""
    alone: LateShares | None = None
    """Late shares of a pod that receives its part of the requests at random."""

    def __getitem__(self, percent: int) -> float:
        """Return the share of late requests at this utilization in percent."""
        share = self.at(percent / 100)
        return share if self.alone is None else min(share, self.alone[percent])

    def at(self, rho: float) -> float:
        """Return the share of late requests at this utilization; 1 from 1 on."""
        if rho >= 1:
            return 1.0
        backlog = self.rows * max(self.limit - self._typical(rho), 0.0)
        return exp(-2 * (1 - rho) * backlog / self.dispersion)

    def p99(self, rho: float) -> float:
        """Return the 99th percentile of latency at a utilization below 1."""
        return self._typical(rho) + P99 * self.dispersion / (2 * (1 - rho) * self.rows)

    def _typical(self, rho: float) -> float:
        """Return the latency without fluctuations: the batches that pass, of the rows that arrive during one."""
        share = rho * self.intercept / (1 - rho * (1 - self.intercept))
        return BATCHES[self.spread] * (self.intercept + (1 - self.intercept) * share)


LateSharesByPods = Callable[[float], dict[int, float] | PooledQueue]
"""The share of late requests by number of pods, and by utilization in percent."""


def late_shares(traffic: PoolTraffic, intercept: float, cap: int, limit: float) -> LateSharesByPods:
    """Return the share of requests later than `limit` t(cap), by number of pods and utilization in percent."""
    dispersion = traffic.dispersion / cap
    if traffic.spread is RequestSpread.BY_CONNECTION:
        shares = predict.late_share_by_unevenness(intercept, dispersion, limit)
        return lambda pods: shares(traffic.unevenness * pods)
    alone = predict.late_share(TrafficShape(intercept, dispersion, 0.0), limit)
    spread, pool_dispersion = traffic.spread, traffic.pool_dispersion
    return lambda pods: PooledQueue(
        spread, cap * max(pods, 1.0), intercept, pool_dispersion, limit, alone
    )


def p99(traffic: PoolTraffic, intercept: float, cap: int, pods: int, rho: float) -> float:
    """Return the 99th percentile of latency in t(cap) at a utilization; infinite from 1 on."""
    ends = predict.p99(intercept, traffic.dispersion / cap, rho)
    if traffic.spread is RequestSpread.BY_CONNECTION or rho >= 1:
        return ends
    rows = float(cap * max(pods, 1))
    return min(ends, PooledQueue(traffic.spread, rows, intercept, traffic.pool_dispersion).p99(rho))
