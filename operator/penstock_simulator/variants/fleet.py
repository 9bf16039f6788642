"""`VariantFleet`: the pods of all variants. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from penstock_simulator.batch_work import Backlog
from penstock_simulator.pods.fleet import SETTLED_SECONDS, SimulatedFleet, cold_start
from penstock_simulator.pods.pod import SimulatedPod
from penstock_simulator.variants.scenario import PoolVariant, VariantsScenario

HOUR = 3600.0


class VariantFleet(SimulatedFleet):
    """All pods of a run, past and present, with a cap for each variant."""

    def __init__(self, scenario: VariantsScenario, backlog: Backlog | None = None) -> None:
        """`backlog` is the batch work of the run."""
        super().__init__(replace(scenario.world, start_replicas=0), backlog)
        self.variants = scenario.variants
        self.caps: Mapping[str, int] = {}
        self.shares: Mapping[str, float] = {}
        """Weight of each variant's pods at a router; 1 if absent."""
        for variant in self.variants:
            for _ in range(variant.start_replicas):
                start = cold_start(variant.cold, self._starts)
                self._start(variant, -SETTLED_SECONDS, start - SETTLED_SECONDS, 0.0)

    def _start(
        self, variant: PoolVariant, created: float, ready_at: float, billed_from: float
    ) -> None:
        pod = self._add(created, ready_at, billed_from, variant.service)
        pod.variant = variant.name
        pod.cap = self.caps.get(variant.name, 1)

    def set_caps(self, caps: Mapping[str, int]) -> None:
        """Publish a cap for each variant, which its pods apply from their next batch on."""
        self.caps = caps
        for pod in self.live:
            pod.cap = caps.get(pod.variant, pod.cap)

    def of(self, variant: PoolVariant) -> list[SimulatedPod]:
        """Return the pods of a variant that are not released."""
        return [pod for pod in self.live if pod.variant == variant.name]

    def counts(self, now: float) -> dict[str, int]:
        """Return the replicas of each variant: all that are not terminating."""
        staying = [pod.variant for pod in self.staying(now)]
        return {variant.name: staying.count(variant.name) for variant in self.variants}

    def scale_to(self, counts: Mapping[str, int], now: float) -> None:
        """Create or drain pods of each variant; pods that are not Ready are drained first, then the youngest."""
        for variant in self.variants:
            staying = [pod for pod in self.of(variant) if pod.terminating_since > now]
            for _ in range(counts[variant.name] - len(staying)):
                start = cold_start(variant.cold, self._starts)
                self._start(variant, now, now + start, now)
            staying.sort(key=lambda pod: (pod.ready_at > now, pod.ready_at), reverse=True)
            for pod in staying[: max(0, len(staying) - counts[variant.name])]:
                pod.terminate(now, self._scenario.drain_seconds)

    def cost(self, end: float) -> float:
        """Return the price of all pods until `end`, from decision to release; pods without a price cost nothing."""
        prices = {variant.name: variant.per_hour or 0.0 for variant in self.variants}
        return sum(
            prices[pod.variant] * max(0.0, min(pod.released_at, end) - pod.billed_from) / HOUR
            for pod in self.all
        )

    def batch_cost(self, end: float) -> float:
        """Return the part of the cost that batch work has by its share of each variant's rows."""
        hours, cost = self.hours(end), 0.0
        for variant in self.variants:
            pods = [pod for pod in self.all if pod.variant == variant.name]
            lines = sum(sum(pod.engine.fills.values()) for pod in pods)
            rows = sum(sum(pod.engine.lasts) - sum(pod.engine.firsts) for pod in pods)
            share = lines / max(lines + rows, 1)
            cost += share * (variant.per_hour or 0.0) * hours[variant.name]
        return cost

    def hours(self, end: float) -> dict[str, float]:
        """Return the replica-hours of each variant until `end`."""
        hours = dict.fromkeys((variant.name for variant in self.variants), 0.0)
        for pod in self.all:
            hours[pod.variant] += max(0.0, min(pod.released_at, end) - pod.billed_from) / HOUR
        return hours
