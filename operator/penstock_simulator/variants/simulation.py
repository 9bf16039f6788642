"""`simulate_variants`: runs arrivals, unlike pods and a decision on their mix in simulated time. Pure.

As `simulation.py`: a decision every 5 s, and requests routed in slices of half a second between two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock_operator.decide.scaling.law import LawInput
from penstock_operator.decide.variants.capacity import Variant
from penstock_operator.decide.variants.step import VariantsState, initial, variants_step
from penstock_simulator.batch_work import Backlog
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.scrape import Scraper, law_pod
from penstock_simulator.scenario import EPOCH, TICK_SECONDS
from penstock_simulator.simulation import RunRecord, TickRecord
from penstock_simulator.variants.fleet import VariantFleet
from penstock_simulator.variants.routing import variant_router
from penstock_simulator.variants.scenario import VariantsScenario


@dataclass(frozen=True, slots=True)
class MixMoment:
    """Counts, caps and weights of all variants from one tick on."""

    counts: Mapping[str, int]
    caps: Mapping[str, int]
    weights: Mapping[str, float]


class Policy(Protocol):
    """Decides on the mix."""

    name: str

    def decide(self, observed: LawInput, variants: Sequence[Variant], now: float) -> MixMoment:
        """Return the decision of a tick."""


class LawPolicy:
    """CapacityAtObjective and the cheapest mix."""

    name = "CapacityAtObjective"

    def __init__(self) -> None:
        self.state: VariantsState = initial(EPOCH)
        self._caps: Mapping[str, int] = {}

    def decide(self, observed: LawInput, variants: Sequence[Variant], now: float) -> MixMoment:
        """Return the decision of a tick."""
        cap = self._caps.get(self.state.reference or "")
        self.state, decided = variants_step(
            self.state, observed._replace(cap=cap), variants, EPOCH + now
        )
        self._caps = decided.caps
        return MixMoment(decided.counts, decided.caps, decided.weights)


@dataclass(slots=True)
class FixedMix:
    """The same counts all the time."""

    planned: MixMoment
    name: str = "fixed"

    def decide(self, observed: LawInput, variants: Sequence[Variant], now: float) -> MixMoment:
        """Return the counts."""
        del observed, variants, now
        return self.planned


@dataclass(frozen=True, slots=True)
class VariantsSummary:
    """Summary figures of one run."""

    summary: RunSummary
    cost: float
    """Price of all replicas, from decision to release."""
    replica_hours: Mapping[str, float]


def simulate_variants(
    scenario: VariantsScenario, policy: Policy, arrivals: Times
) -> VariantsSummary:
    """Run `policy` over `arrivals` (seconds, ascending, from 0) until the last request and batch have ended."""
    fleet = VariantFleet(scenario)
    router = variant_router(scenario, fleet)
    run = RunRecord(scenario.world, policy.name, arrivals, fleet, router, Backlog(()))
    scraper, is_fixed = Scraper(scenario.world), isinstance(policy, FixedMix)
    horizon = float(arrivals[-1]) if len(arrivals) else 0.0
    now, index, seen = 0.0, 0, 0
    while now <= horizon or router.waiting():
        if not is_fixed or not index:
            _decide(scenario, policy, fleet, scraper, now)
        run.moments.append(_moment(fleet, now))
        index += 1
        until = index * TICK_SECONDS
        upto = int(np.searchsorted(arrivals, until, side="left"))
        router.advance(arrivals[seen:upto], now, until)
        fleet.release(until)
        now, seen = until, upto
    run.end = max([horizon, *(pod.engine.free_at for pod in fleet.all)])
    return VariantsSummary(outcome(run), fleet.cost(run.end), fleet.hours(run.end))


def _decide(
    scenario: VariantsScenario, policy: Policy, fleet: VariantFleet, scraper: Scraper, now: float
) -> None:
    settings = scenario.world.settings
    scraper.scrape(fleet, now)
    counts = fleet.counts(now)
    variants = [
        Variant(
            variant.name,
            variant.per_hour,
            variant.least,
            variant.most,
            counts[variant.name],
            tuple(law_pod(pod, settings.size_max, now) for pod in fleet.of(variant)),
        )
        for variant in fleet.variants
    ]
    pods = tuple(pod for variant in variants for pod in variant.pods)
    observed = LawInput(settings, scraper.signals(now), pods, sum(counts.values()), None)
    decided = policy.decide(observed, variants, now)
    fleet.set_caps(decided.caps)
    fleet.shares = decided.weights
    fleet.scale_to(decided.counts, now)


def _moment(fleet: VariantFleet, now: float) -> TickRecord:
    staying = len(fleet.staying(now))
    return TickRecord(now, 0.0, staying, len(fleet.ready(now)), len(fleet.live), 0, 0.0, "", "")
