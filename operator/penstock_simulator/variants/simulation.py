"""`simulate_variants`: runs arrivals, unlike pods and a decision on their mix in simulated time. Pure.

As `simulation.py`: a decision every 5 s, and requests routed in slices of half a second between two. The law of each variant
and the decision on the mix are those of the operator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from penstock_operator.decide.scaling.batch_work import batch_demand
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import LawInput
from penstock_operator.decide.variant_pools.weights import weights
from penstock_operator.decide.variants.batch_work import with_batch_work
from penstock_operator.decide.variants.decision import (
    MixDecision,
    MixState,
    VariantInput,
    decide_mix,
)
from penstock_operator.decide.variants.measure import variant_figures
from penstock_operator.observed import BatchLoad, PoolSignals
from penstock_operator.variants import NO_FIGURES, VariantFigures
from penstock_simulator.batch_work import Backlog
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.scrape import Scraper, law_pod
from penstock_simulator.scenario import EPOCH, TICK_SECONDS, Routing
from penstock_simulator.simulation import RunRecord, TickRecord, demand
from penstock_simulator.variants.fleet import VariantFleet
from penstock_simulator.variants.routing import variant_router
from penstock_simulator.variants.scenario import VariantsScenario

LAW = CapacityAtObjective()
NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MixMoment:
    """Counts, caps and weights of all variants from one tick on."""

    counts: Mapping[str, int]
    caps: Mapping[str, int]
    weights: Mapping[str, float]


class Policy(Protocol):
    """Decides on the mix."""

    name: str

    def decide(
        self, observed: Mapping[str, LawInput], batches: tuple[BatchLoad, ...], now: float
    ) -> MixMoment:
        """Return the decision of a tick; `observed` has what the law of each variant reads."""


class LawPolicy:
    """The operator's mode Auto: a law for each variant, and one decision on the mix."""

    name = "CapacityAtObjective"

    def __init__(
        self,
        scenario: VariantsScenario,
        capacities: Mapping[str, float] = NONE,
        caps: Mapping[str, int] = NONE,
        floor: Callable[[float], int] | None = None,
    ) -> None:
        """`capacities` have been measured before, as those in a status, and `caps` are in force whatever a law plans.

        `floor` returns the minimum of all replicas by the seconds since the start.
        """
        self._variants = scenario.variants
        self._batch_work = scenario.world.batch_work
        self._routed = scenario.world.routing is Routing.LEAST_REQUEST
        self._settings = scenario.world.settings
        self._floor = floor
        self._laws: dict[str, CapacityState] = {
            variant.name: LAW.initial(EPOCH) for variant in scenario.variants
        }
        self._frozen = caps
        self.caps: dict[str, int] = {}
        """Caps in force."""
        self._state = MixState(capacities)
        self.decided: MixDecision | None = None
        """The last decision."""

    @property
    def capacities(self) -> Mapping[str, float]:
        """Return the rows a second of one replica within the objective, as measured last, by variant."""
        return self._state.capacities

    def decide(
        self, observed: Mapping[str, LawInput], batches: tuple[BatchLoad, ...], now: float
    ) -> MixMoment:
        """Return the decision of a tick."""
        if self._floor is not None:
            self._settings = replace(self._settings, min_replicas=self._floor(now))
        inputs = []
        for variant in self._variants:
            seen = observed[variant.name]
            inputs.append(
                VariantInput(
                    name=variant.name,
                    figures=self._measured(variant.name, seen, variant.per_hour, EPOCH + now),
                    least=variant.least,
                    most=variant.most,
                    running=seen.replicas,
                    ready=len(seen.ready),
                )
            )
        self._state, decided = decide_mix(
            self._state, inputs, self._settings, routed=self._routed, now=EPOCH + now
        )
        batch = batch_demand(self._batch_work, batches, EPOCH + now)
        decided = with_batch_work(decided, batch, self._state, inputs, self._settings)
        self.decided = decided
        return MixMoment(decided.counts, self.caps, self._weights())

    def _measured(
        self, name: str, seen: LawInput, per_hour: float | None, now: float
    ) -> VariantFigures:
        """Return the figures of a variant; its law plans the cap of its pods."""
        if not seen.pods:
            return NO_FIGURES._replace(per_hour=per_hour)
        most = max(seen.settings.max_replicas, 1)
        settings = replace(self._settings, min_replicas=1, max_replicas=most)
        fixed = self._frozen.get(name)
        seen = seen._replace(settings=settings, cap=self.caps.get(name), fixed_cap=fixed)
        self._laws[name], decision = LAW.step(self._laws[name], seen, now)
        self.caps[name] = decision.cap if fixed is None else fixed
        return variant_figures(self._laws[name], seen, decision, per_hour, now)

    def _weights(self) -> dict[str, float]:
        names = tuple(variant.name for variant in self._variants)
        given = weights(self._state.capacities, names)
        return {name: float(weight) for name, weight in given.items()}


@dataclass(slots=True)
class FixedMix:
    """The same counts all the time."""

    planned: MixMoment
    name: str = "fixed"

    def decide(
        self, observed: Mapping[str, LawInput], batches: tuple[BatchLoad, ...], now: float
    ) -> MixMoment:
        """Return the counts."""
        del observed, batches, now
        return self.planned


@dataclass(frozen=True, slots=True)
class VariantsSummary:
    """Summary figures of one run."""

    summary: RunSummary
    cost: float
    """Price of all replicas, from decision to release."""
    replica_hours: Mapping[str, float]
    batch_cost: float
    """The part of the cost that batch work has by its share of each variant's rows."""
    run: RunRecord


def simulate_variants(
    scenario: VariantsScenario, policy: Policy, arrivals: Times, length: float = 0.0
) -> VariantsSummary:
    """Run `policy` over `arrivals` (seconds, ascending, from 0) until the last request and batch have ended.

    The run takes at least `length` seconds.
    """
    backlog = Backlog(scenario.world.batches)
    fleet = VariantFleet(scenario, backlog if scenario.world.batches else None)
    router = variant_router(scenario, fleet)
    run = RunRecord(scenario.world, policy.name, arrivals, fleet, router, backlog)
    scraper, is_fixed = Scraper(scenario.world), isinstance(policy, FixedMix)
    horizon = max([length, *arrivals[-1:].tolist()])
    now, index, seen = 0.0, 0, 0
    while now <= horizon or router.waiting() or backlog.unfinished(now):
        if not is_fixed or not index:
            _decide(run, policy, fleet, scraper, now)
        backlog.ready = len(fleet.ready(now))
        run.moments.append(_moment(fleet, demand(arrivals, now), now))
        index += 1
        until = index * TICK_SECONDS
        upto = int(np.searchsorted(arrivals, until, side="left"))
        router.advance(arrivals[seen:upto], now, until)
        fleet.release(until)
        now, seen = until, upto
    run.end = max([horizon, *(pod.engine.free_at for pod in fleet.all)])
    cost, hours = fleet.cost(run.end), fleet.hours(run.end)
    return VariantsSummary(outcome(run), cost, hours, fleet.batch_cost(run.end), run)


def _decide(
    run: RunRecord, policy: Policy, fleet: VariantFleet, scraper: Scraper, now: float
) -> None:
    settings = run.scenario.settings
    scraper.scrape(fleet, now)
    counts, signals, observed = fleet.counts(now), scraper.signals(now), dict[str, LawInput]()
    for variant in fleet.variants:
        pods = tuple(law_pod(pod, settings.size_max, now) for pod in fleet.of(variant))
        own = replace(settings, max_replicas=variant.most)
        seen = _of_pods(signals, {pod.uid for pod in pods})
        observed[variant.name] = LawInput(own, seen, pods, counts[variant.name], None)
    decided = policy.decide(observed, run.backlog.loads(now), now)
    fleet.set_caps(decided.caps)
    fleet.shares = decided.weights
    fleet.scale_to(decided.counts, now)


def _of_pods(signals: PoolSignals, uids: set[str]) -> PoolSignals:
    return replace(
        signals, samples=tuple(sample for sample in signals.samples if sample.uid in uids)
    )


def _moment(fleet: VariantFleet, demand: float, now: float) -> TickRecord:
    ready = fleet.ready(now)
    return TickRecord(
        time=now,
        demand=demand,
        wanted=len(fleet.staying(now)),
        ready=len(ready),
        devices=len(fleet.live),
        cap=sum(pod.cap for pod in ready) / max(len(ready), 1),
        waiting=sum(pod.waiting() for pod in fleet.live),
        replicas_term="",
        cap_term="",
    )
