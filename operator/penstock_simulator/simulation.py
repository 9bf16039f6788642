"""`simulate`: runs arrivals, pods and a law in simulated time. Pure.

Every 5 s the law runs one step, exactly as in the operator, and every pod is scraped, all at once or each at its own
moment. Between two steps requests are
routed in slices of half a second; readiness and the pods of connections change at the edges of slices, while batches
start and end at their exact times.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from penstock_operator.decide.scaling.law import Law
from penstock_simulator.baselines.fixed import Planned
from penstock_simulator.batch_work import Backlog, LawWithBatchWork
from penstock_simulator.pods.fleet import SimulatedFleet
from penstock_simulator.pods.routing import Router, Times, router, slices
from penstock_simulator.pods.scrape import Scraper, law_input
from penstock_simulator.scenario import EPOCH, TICK_SECONDS, Scenario
from penstock_simulator.zero import LawAtZero


@dataclass(frozen=True, slots=True)
class TickRecord:
    """One tick, for tables and plots."""

    time: float
    demand: float
    """Requests per second since the last tick."""
    wanted: int
    ready: int
    devices: int
    """Pods with a GPU, including loading and draining ones."""
    cap: float
    """Of unlike pods the mean of the Ready ones."""
    waiting: float
    replicas_term: str
    cap_term: str


@dataclass
class RunRecord:
    """Record of a run."""

    scenario: Scenario
    law: str
    arrivals: Times
    fleet: SimulatedFleet
    router: Router
    backlog: Backlog
    moments: list[TickRecord] = field(default_factory=list)
    end: float = 0.0
    """End of the last request, or of a quiet time after it."""


def simulate(scenario: Scenario, law: Law[Any], arrivals: Times, length: float = 0.0) -> RunRecord:
    """Run `law` over `arrivals` (seconds, ascending, from 0) until the last request and batch have ended.

    The run takes at least `length` seconds, with a quiet end if the arrivals stop before.
    """
    backlog = Backlog(scenario.batches)
    fleet = SimulatedFleet(scenario, backlog if scenario.batches else None)
    run = RunRecord(scenario, law.name, arrivals, fleet, router(scenario, fleet), backlog)
    if scenario.settings.min_replicas == 0:
        law = LawAtZero(law, scenario.idle_seconds, lambda: len(run.router.without_pod))
    if scenario.batches and scenario.batch_work is not None:
        law = LawWithBatchWork(law, scenario.batch_work, backlog)
    scraper, state = Scraper(scenario), law.initial(EPOCH)
    horizon = max([length, *arrivals[-1:].tolist()])
    now, index, seen = 0.0, 0, 0
    while now <= horizon or run.router.waiting() or backlog.unfinished(now):
        planned = isinstance(law, Planned)
        if not planned:
            scraper.scrape(fleet, now)
        state = _tick(run, law, state, scraper, now)
        index += 1
        until = index * TICK_SECONDS
        upto = int(np.searchsorted(arrivals, until, side="left"))
        if planned or scraper.at_once:
            run.router.advance(arrivals[seen:upto], now, until)
        else:
            for part, begin, end in slices(arrivals[seen:upto], now, until):
                scraper.scrape(fleet, begin)
                run.router.advance(part, begin, end)
        fleet.release(until)
        now, seen = until, upto
    run.end = max([horizon, *(pod.engine.free_at for pod in fleet.all)])
    return run


def _tick(run: RunRecord, law: Law[Any], state: object, scraper: Scraper, now: float) -> object:
    scenario, fleet = run.scenario, run.fleet
    signals = scraper.signals(now)
    state, decision = law.step(state, law_input(scenario, fleet, signals, now), EPOCH + now)
    settings = scenario.settings
    cap = min(max(decision.cap, 1), settings.size_max)
    if cap != fleet.cap:
        fleet.set_cap(cap)
    wanted = min(max(decision.replicas, settings.min_replicas), settings.max_replicas)
    fleet.scale(wanted, now)
    run.backlog.ready = len(fleet.ready(now))
    run.moments.append(
        TickRecord(
            time=now,
            demand=demand(run.arrivals, now),
            wanted=wanted,
            ready=len(fleet.ready(now)),
            devices=len(fleet.live),
            cap=cap,
            waiting=sum(pod.waiting() for pod in fleet.live),
            replicas_term=str(decision.replicas_term),
            cap_term=str(decision.cap_term),
        )
    )
    return state


def demand(arrivals: Times, now: float) -> float:
    """Return the rows a second of the tick that ends."""
    first, last = np.searchsorted(arrivals, [now - TICK_SECONDS, now])
    return float(last - first) / TICK_SECONDS


def reversals(moments: list[TickRecord]) -> int:
    """Return how often the desired count changed direction."""
    moves = [after.wanted - before.wanted for before, after in pairwise(moments)]
    signs = [move > 0 for move in moves if move]
    return sum(before != after for before, after in pairwise(signs))
