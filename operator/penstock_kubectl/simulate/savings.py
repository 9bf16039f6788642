"""What the law saved on a pool's history: against the lowest fixed count that suffices, and against an HPA at 70 %. Pure.

A run suffices if it attains the objective and answers all batches in time.

The fixed count is the best that anyone could have chosen in hindsight. Both baselines run batches up to the cap that the law
published for the pool, so that only the replica count is compared. Of a pool with variants the fixed count is a fixed mix
(`fixed_mix.py`), and the HPA scales the variant with which it is cheapest, alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from penstock_kubectl.simulate.cases import PolicyCase
from penstock_kubectl.simulate.scenario import Comparison, Result
from penstock_operator.decide.cost.prices import money
from penstock_operator.decide.scaling.law import Law
from penstock_operator.decide.scaling.zero import never_at_zero
from penstock_simulator.law_registry import law_named
from penstock_simulator.scenario import Scenario

HPA = "hpa-70"


@dataclass(frozen=True, slots=True)
class Saving:
    """The law compared with one baseline on the same arrivals."""

    own: Result
    other: Result
    currency: str | None
    """None: costs are device hours."""

    @property
    def share(self) -> float | None:
        """Share of the baseline's cost that was saved, negative if the law cost more; None unless both suffice."""
        if not (self.own.outcome.suffices and self.other.outcome.suffices):
            return None
        own, other = self.own.device_hours, self.other.device_hours
        if self.own.cost is not None and self.other.cost:
            own, other = float(self.own.cost), float(self.other.cost)
        return 1 - own / other

    def sentence(self) -> str:
        """Return the comparison."""
        costs = f"{self._costs(self.own)[0]} costs {self._costs(self.own)[1]}, {' '.join(self._costs(self.other))}"
        missing = [each for each in (self.own, self.other) if not each.outcome.suffices]
        if missing:
            late = " and ".join(map(_shortfall, missing))
            return f"{costs}: not comparable, because {late}"
        share = self.share or 0.0
        return f"{costs}: {abs(100 * share):.1f} % {'less' if share >= 0 else 'more'}"

    def _costs(self, result: Result) -> tuple[str, str]:
        amount = f"{result.device_hours:.2f} device hours"
        if result.cost is not None and self.currency is not None:
            amount = f"{money(result.cost)} {self.currency}".strip()
        return result.labels.name, amount


def _shortfall(result: Result) -> str:
    """Return what a run missed: its objective, else its batches."""
    name, outcome, work = result.labels.name, result.outcome, result.outcome.batch_work
    if work is None or not outcome.attains:
        return f"{name} attains {100 * outcome.attainment:.2f} % of {100 * outcome.target:g} %"
    return f"{name} answers {work.in_time} of {work.batches} batches in time"


def savings(compared: Comparison) -> Iterator[Saving]:
    """Yield what the pool as it is saved against each baseline."""
    own, *others = compared.results
    for other in others[len(others) - compared.baselines :]:
        yield Saving(own, other, compared.pods.currency)


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
