"""Simulation of pools that share a GPU budget, each with its own law, pods and arrivals, on one clock. Pure.

The operator's own `decide/budgets` grants replicas: requests at each tick, shares by weight and need, and waits for drains.
A replica is one device.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from penstock_operator.decide.budgets.settlement import settle
from penstock_operator.decide.quota_ledger import QuotaLedger, QuotaRequest
from penstock_operator.decide.scaling.law import Decision, Law
from penstock_simulator.pods.fleet import SimulatedFleet
from penstock_simulator.pods.routing import Router, Times, router
from penstock_simulator.pods.scrape import Scraper, law_input
from penstock_simulator.scenario import EPOCH, TICK_SECONDS, Scenario

RESOURCE, POLICY = "simulated/device", "budget"


@dataclass
class Tenant:
    """One pool, with its record of the run."""

    name: str
    weight: int
    scenario: Scenario
    law: Law[Any]
    arrivals: Times
    wanted: list[int] = field(default_factory=list)
    """Desired replicas by tick, like the following lists."""
    granted: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    """Devices in use, including pods that load or drain."""

    def __post_init__(self) -> None:
        self.fleet = SimulatedFleet(self.scenario)
        self.router: Router = router(self.scenario, self.fleet)
        self.scraper = Scraper(self.scenario)
        self.state = self.law.initial(EPOCH)
        self.limited = False
        self.seen = 0

    def claim(self, now: float) -> QuotaRequest:
        """Run one step of the law and return its request."""
        decision = self._step(now)
        settings = self.scenario.settings
        wanted = min(max(decision.replicas, settings.min_replicas), settings.max_replicas)
        self.wanted.append(wanted)
        need = max((count.replicas for count in decision.demands), default=float(wanted))
        staying = len(self.fleet.staying(now))
        return QuotaRequest(
            uid=self.name,
            resource=RESOURCE,
            per_replica=1,
            weight=self.weight,
            floor=min(settings.min_replicas, wanted),
            requested=wanted,
            need=min(need, float(wanted)),
            deployed=staying,
            staying=staying,
            leaving=len(self.fleet.live) - staying,
            policies=(POLICY,),
        )

    def apply(self, ledger: QuotaLedger, now: float) -> None:
        """Scale to the granted replicas."""
        grant = ledger.grants[self.name]
        self.limited = grant.replicas < self.wanted[-1]
        self.fleet.scale(grant.replicas, now)
        self.granted.append(grant.entitled)
        self.asked.append(grant.replicas)
        self.used.append(len(self.fleet.live))

    def live(self, now: float, until: float) -> None:
        """Serve the arrivals until the next tick."""
        upto = int(np.searchsorted(self.arrivals, until, side="left"))
        self.router.advance(self.arrivals[self.seen : upto], now, until)
        self.fleet.release(until)
        self.seen = upto

    def _step(self, now: float) -> Decision:
        self.scraper.scrape(self.fleet, now)
        signals = self.scraper.signals(now)
        seen = law_input(self.scenario, self.fleet, signals, now, limited=self.limited)
        self.state, decision = self.law.step(self.state, seen, EPOCH + now)
        cap = min(max(decision.cap, 1), self.scenario.settings.size_max)
        if cap != self.fleet.cap:
            self.fleet.set_cap(cap)
        return decision


def share(tenants: Sequence[Tenant], devices: int, seconds: float) -> None:
    """Run all pools under a budget of `devices`; each tenant keeps its record."""
    ledger = QuotaLedger()
    for index in range(int(seconds // TICK_SECONDS)):
        now = index * TICK_SECONDS
        claims = {tenant.name: tenant.claim(now) for tenant in tenants}
        ledger = settle(ledger, claims, {(POLICY, RESOURCE): devices}, (), EPOCH + now)
        for tenant in tenants:
            tenant.apply(ledger, now)
            tenant.live(now, now + TICK_SECONDS)


def turns(counts: Sequence[int]) -> int:
    """Return how often a count changed direction."""
    moves = [after - before for before, after in pairwise(counts) if after != before]
    return sum((before > 0) != (after > 0) for before, after in pairwise(moves))
