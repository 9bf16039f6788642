"""What the law saved on a pool's history: against the lowest fixed count that attains, and against an HPA at 70 %. Pure.

The fixed count is the best that anyone could have chosen in hindsight. Both baselines run batches up to the cap that the law
published for the pool, so that only the replica count is compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil

from penstock_kubectl.cases import PolicyCase
from penstock_operator.decide.cost.prices import plain
from penstock_operator.decide.scaling.law import Law
from penstock_operator.decide.scaling.zero import never_at_zero
from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import RunSummary
from penstock_simulator.scenario import Scenario

HPA = "hpa-70"
THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class ReplicaPrice:
    """Price of an hour of one replica with all its devices."""

    per_hour: Decimal
    currency: str

    def of(self, result: RunSummary) -> Decimal:
        """Return the cost of a run."""
        return Decimal(result.gpu_hours) * self.per_hour

    def per_thousand(self, result: RunSummary, rows: int) -> Decimal:
        """Return the cost of 1,000 of the rows that a run received."""
        return self.of(result) * THOUSAND / rows

    def __str__(self) -> str:
        """Return amount and unit."""
        unit = f" {self.currency}" if self.currency else ""
        return f"{plain(self.per_hour)}{unit} an hour of a replica"


@dataclass(frozen=True, slots=True)
class Saving:
    """The law compared with one baseline on the same arrivals."""

    own: RunSummary
    other: RunSummary

    @property
    def share(self) -> float | None:
        """Share of the baseline's cost that was saved, negative if the law cost more; None unless both attain the objective."""
        if not (self.own.attains and self.other.attains):
            return None
        return 1 - self.own.gpu_hours / self.other.gpu_hours

    def sentence(self, amount: Callable[[RunSummary], str]) -> str:
        """Return the comparison; `amount` is the text of a run's cost."""
        costs = f"{self.own.law} costs {amount(self.own)}, {self.other.law} {amount(self.other)}"
        missing = [run for run in (self.own, self.other) if not run.attains]
        if missing:
            late = " and ".join(
                f"{run.law} attains {100 * run.attainment:.2f} % of {100 * run.target:g} %"
                for run in missing
            )
            return f"{costs}: not comparable, because {late}"
        share = self.share or 0.0
        return f"{costs}: {abs(100 * share):.1f} % {'less' if share >= 0 else 'more'}"


def baseline_cap(case: PolicyCase) -> int:
    """Return the batch cap of the baselines: the published one within the range of the spec, else `size.max`."""
    batch, law = case.subject.pool.status.batch, case.effective.law
    published = batch.cap if batch is not None and batch.cap else law.size_max
    return min(max(published, law.size_min), law.size_max)


def baseline_law(name: str, given: Scenario, cap: int) -> Law[object]:
    """Return a baseline by its name in the simulator, such as `fixed-4`."""
    return law_named(f"{name}@{cap}", given.service)


def free_scenario(given: Scenario, case: PolicyCase) -> Scenario:
    """Return the scenario of a baseline that moves the count within the pool's bounds, from one replica up."""
    law = never_at_zero(case.effective).law
    start = min(max(given.start_replicas, law.min_replicas), law.max_replicas)
    return replace(given, settings=law, start_replicas=start)


def fixed_scenario(given: Scenario, case: PolicyCase, count: int) -> Scenario:
    """Return the scenario of a fixed count, with all its replicas Ready at the start."""
    settings = replace(case.effective.law, min_replicas=count, max_replicas=count)
    return replace(given, settings=settings, start_replicas=count)


def lowest_count(attains: Callable[[int], bool], need: float, most: int) -> int:
    """Return the lowest count up to `most` that attains, searched from the mean `need` on; `most` if none does."""
    low, reached = 1, min(max(ceil(need), 1), most)
    while not attains(reached):
        if reached == most:
            return most
        low, reached = reached + 1, min(2 * reached, most)
    while low < reached:
        middle = (low + reached) // 2
        if attains(middle):
            reached = middle
        else:
            low = middle + 1
    return reached
