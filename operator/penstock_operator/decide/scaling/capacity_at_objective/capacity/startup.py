"""Start-up time of replicas, from binding to Ready. Pure.

Only observed starts count. A pod that becomes Ready again is not a start, and neither is a pod first seen not Ready long after
its binding, since it may have served before the operator started. A running start counts with its elapsed time once that
exceeds the estimate. Waiting for a node is not part of a start.

A start is stuck, and does not count for the estimate, from the moment
- its pod reports a problem or its container was restarted, as it is after loading for an hour, or
- it takes longer than 10 minutes and than 3 times the 90th percentile of finished starts: of lognormal starts of the
  usual width one in 4,000 takes so long.
So a pod that never becomes Ready lengthens the scale-down hold only until then.
"""

from collections.abc import Mapping, Sequence
from math import exp, log, sqrt
from types import MappingProxyType
from typing import NamedTuple

from penstock_operator.decide.scaling.law import LawPod

PRIOR_P90_SECONDS = 120.0
PRIOR_SIGMA = 0.5
"""Standard deviation of the logarithm: start-up times are about lognormal."""
NORMAL_P90 = 1.2816
MAX_STARTS = 32
"""Maximum number of stored starts."""
MIN_STARTS_FOR_QUANTILE = 10
"""Finished starts from which on their empirical quantile is used."""
MIN_SECONDS, MAX_SECONDS = 1.0, 1800.0
STUCK_SECONDS = 600.0
"""Minimum time before a start counts as stuck, the same as the default progressDeadlineSeconds."""
STUCK_FACTOR = 3.0
"""Multiple of the 90th percentile of finished starts: z = 1.28 + ln(3) / 0.5 = 3.5."""
WATCHED_FROM_START_SECONDS = 60.0
"""Maximum age of a start at its first tick if it is to count: an idle pool has a tick every 30 s."""


class Startup(NamedTuple):
    """Running starts, as start times by pod UID, and the last finished ones, in seconds."""

    running: Mapping[str, float] = MappingProxyType({})
    finished: tuple[float, ...] = ()
    served: frozenset[str] = frozenset()
    """Live pods that have been Ready."""
    met_late: frozenset[str] = frozenset()
    """Running starts first seen long after their binding, whose duration is unknown."""
    failing: frozenset[str] = frozenset()
    """Running starts whose pod reports a problem or was restarted."""


def watch(startup: Startup, pods: Sequence[LawPod], now: float) -> Startup:
    """Return the starts after this tick."""
    finished = startup.finished
    served = {pod.uid for pod in pods if pod.ready or pod.uid in startup.served}
    running: dict[str, float] = {}
    for pod in pods:
        if pod.terminating:
            continue
        if pod.uid not in served and pod.scheduled_since is not None:
            running[pod.uid] = startup.running.get(pod.uid, pod.scheduled_since)
        elif pod.ready and pod.uid in startup.running and pod.uid not in startup.met_late:
            ended = now if pod.ready_since is None else min(pod.ready_since, now)
            took = ended - startup.running[pod.uid]
            finished = (*finished, min(max(took, MIN_SECONDS), MAX_SECONDS))[-MAX_STARTS:]
    met_late = (
        uid
        for uid, since in running.items()
        if uid in startup.met_late
        or (uid not in startup.running and now - since > WATCHED_FROM_START_SECONDS)
    )
    failing = frozenset(pod.uid for pod in pods if pod.failing and pod.uid in running)
    return Startup(running, finished, frozenset(served), frozenset(met_late), failing)


def p90_seconds(startup: Startup, now: float) -> float:
    """Return the 90th percentile of start-up, in seconds: of a lognormal with a prior for few starts, later the empirical one."""
    known = list(startup.finished)
    if not startup.running:
        return _p90(known)
    guess, longest = _lognormal_p90(known), stuck_seconds(startup)
    known += [
        min(elapsed, MAX_SECONDS)
        for uid, began in startup.running.items()
        if guess < (elapsed := now - began) <= longest
        and uid not in startup.met_late
        and uid not in startup.failing
    ]
    return _p90(known)


def stuck_seconds(startup: Startup) -> float:
    """Return the time after which a start counts as stuck, in seconds."""
    return max(STUCK_SECONDS, STUCK_FACTOR * _p90(startup.finished))


def _p90(seconds: Sequence[float]) -> float:
    if len(seconds) < MIN_STARTS_FOR_QUANTILE:
        return min(max(_lognormal_p90(seconds), MIN_SECONDS), MAX_SECONDS)
    ordered = sorted(seconds)
    return ordered[min(int(0.9 * len(ordered)), len(ordered) - 1)]


def _lognormal_p90(seconds: Sequence[float]) -> float:
    """Return the 90th percentile with a prior that weighs one start for the mean and four for the width."""
    prior = log(PRIOR_P90_SECONDS) - NORMAL_P90 * PRIOR_SIGMA
    logs = [log(max(value, MIN_SECONDS)) for value in seconds]
    middle = (prior + sum(logs)) / (1 + len(logs))
    off = sum((value - middle) ** 2 for value in logs)
    sigma = sqrt((4 * PRIOR_SIGMA**2 + off) / (4 + len(logs)))
    return exp(middle + NORMAL_P90 * sigma)
