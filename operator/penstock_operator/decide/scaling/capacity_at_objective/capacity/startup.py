"""How long a replica takes from bind to Ready. Pure.

Only starts that were watched count: a pod that became Ready again after a bad moment tells nothing of starting.
One that is met not Ready long after its binding may have served before, under an operator that is gone: it tells nothing either.
A running start counts with the time it has taken once that is long; waiting for a node is not start-up.

A start is stuck, says nothing of how long starts take, and is no help to expect, from the moment
- its pod reports a problem or its container was restarted, which the startup probe too causes after an hour, or
- it takes longer than 10 minutes and than 3 times the 90th percentile of finished starts: of lognormal starts of the
  usual width one in 4,000 takes so long.
So a pod that never becomes Ready lengthens the hold of scale-down for at most so long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt

from penstock_operator.decide.scaling.law import LawPod

PRIOR_P90_SECONDS = 120.0
PRIOR_SIGMA = 0.5
"""Of the logarithm: start-up times are about lognormal."""
NORMAL_P90 = 1.2816
MAX_STARTS = 32
"""Starts remembered."""
MIN_STARTS_FOR_QUANTILE = 10
"""From so many finished starts on, their own quantile is taken."""
MIN_SECONDS, MAX_SECONDS = 1.0, 1800.0
STUCK_SECONDS = 600.0
"""A start may take this long whatever is known of others, as Kubernetes' own progressDeadlineSeconds."""
STUCK_FACTOR = 3.0
"""Of the 90th percentile of finished starts: z = 1.28 + ln(3) / 0.5 = 3.5."""
WATCHED_FROM_START_SECONDS = 60.0
"""A start is watched if it is met so soon after its binding: an idle pool is looked at every 30 s."""


@dataclass(frozen=True, slots=True)
class Startup:
    """Starts under way, since when by pod UID, and the last finished ones in seconds."""

    running: Mapping[str, float] = field(default_factory=dict)
    finished: tuple[float, ...] = ()
    served: frozenset[str] = frozenset()
    """Living pods that were Ready once: they start no more."""
    met_late: frozenset[str] = frozenset()
    """Those under way that were met long after their binding: nobody knows how long they start."""
    failing: frozenset[str] = frozenset()
    """Those under way whose pod reports a problem, or was restarted."""


def watch(startup: Startup, pods: Sequence[LawPod], now: float) -> Startup:
    """Return what is known after this tick."""
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
    """Return the 90th percentile: of a lognormal with a prior while starts are few, later their own."""
    known = list(startup.finished)
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
    """Return how long a start may take before it counts as stuck."""
    return max(STUCK_SECONDS, STUCK_FACTOR * _p90(startup.finished))


def started_seconds(startup: Startup, most: float, now: float) -> float:
    """Return how long the running starts that are not stuck have taken together, each at most `most`."""
    longest = stuck_seconds(startup)
    return sum(
        min(max(now - began, 0.0), most)
        for uid, began in startup.running.items()
        if now - began <= longest and uid not in startup.failing
    )


def _p90(seconds: Sequence[float]) -> float:
    if len(seconds) < MIN_STARTS_FOR_QUANTILE:
        return min(max(_lognormal_p90(seconds), MIN_SECONDS), MAX_SECONDS)
    ordered = sorted(seconds)
    return ordered[min(int(0.9 * len(ordered)), len(ordered) - 1)]


def _lognormal_p90(seconds: Sequence[float]) -> float:
    """One start's weight for the prior's middle, four for its width."""
    prior = log(PRIOR_P90_SECONDS) - NORMAL_P90 * PRIOR_SIGMA
    logs = [log(max(one, MIN_SECONDS)) for one in seconds]
    middle = (prior + sum(logs)) / (1 + len(logs))
    off = sum((one - middle) ** 2 for one in logs)
    sigma = sqrt((4 * PRIOR_SIGMA**2 + off) / (4 + len(logs)))
    return exp(middle + NORMAL_P90 * sigma)
