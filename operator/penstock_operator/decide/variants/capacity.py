"""`Capacities`: what a replica of each variant serves at the objective, from its own service curve. Pure.

The model is that of CapacityAtObjective: the planned cap, of which two batches fit the objective, and the rows a second of a
replica that runs such batches for the law's largest share of the time, 85 %. A router that splits requests by capacity keeps
the pods of all variants equally busy, so that fixed mixes that just attain have nearly equal sums of it, whatever their parts
(docs/design/variants.md#measurements); a prediction of each variant's latency as if its pods were on their own does not describe that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import PlanInput, best_cap
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import CapacityModel
from penstock_operator.decide.scaling.capacity_at_objective.observations import revision_model
from penstock_operator.decide.scaling.capacity_at_objective.replicas import UTILIZATION
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.reasons import CapReason
from penstock_operator.decide.spec.law_settings import LawSettings

DEAD_BAND = 0.05
"""Relative change of a capacity below which the known one stays, since the fit of a curve fluctuates."""
FULL_TRUST = 1.0


class Variant(NamedTuple):
    """One variant of a pool at one tick."""

    name: str
    per_hour: float | None
    """Price of a replica-hour; None: unknown."""
    least: int
    """minReplicas."""
    most: int
    """maxReplicas."""
    replicas: int
    """Present desired count of its child pool."""
    pods: tuple[LawPod, ...] = ()

    @property
    def ready(self) -> tuple[LawPod, ...]:
        """Return the Ready pods that are not terminating."""
        return tuple(pod for pod in self.pods if pod.ready and not pod.terminating)

    @property
    def revision(self) -> str | None:
        """Return the revision that most of its Ready pods run, without any that most of its pods run."""
        counts = Counter(pod.revision for pod in self.ready or self.pods)
        return max(counts, key=lambda revision: (counts[revision], revision or ""), default=None)


class VariantCapacity(NamedTuple):
    """The capacity of a replica of one variant."""

    rows_per_second: float
    """At the objective; 0: it cannot meet it."""
    cap: int
    """The planned cap."""
    revision: str | None
    """Revision whose pods it was measured at."""


Capacities = Mapping[str, VariantCapacity]
"""By variant; absent: not measured yet. Kept while a variant has no replica, so that it is measured once."""


def measured_capacities(
    before: Capacities, state: CapacityState, variants: Sequence[Variant], settings: LawSettings
) -> Capacities:
    """Return the capacities after this tick, from the curves in the law's state, which is of the pods of all variants."""
    after = {}
    for variant in variants:
        known = before.get(variant.name)
        current = _measured(state, variant, settings)
        if known is None or (current is not None and not _is_same(known, current)):
            known = current
        if known is not None:
            after[variant.name] = known
    return after


def capacity_at_objective(
    model: CapacityModel, settings: LawSettings, memory_bound: int | None = None
) -> tuple[float, int]:
    """Return the rows a second of one replica at the objective, and its cap; 0 rows if it cannot meet the objective."""
    cap, term = best_cap(PlanInput(settings, model, memory_bound, None), FULL_TRUST)
    if term is CapReason.OBJECTIVE_INFEASIBLE:
        return 0.0, cap
    return UTILIZATION * (model.capacity(cap) or 0.0), cap


def _measured(
    state: CapacityState, variant: Variant, settings: LawSettings
) -> VariantCapacity | None:
    revision = variant.revision
    model = revision_model(state, revision, settings) if variant.pods else None
    if model is None:
        return None
    bounds = [pod.cap_bound for pod in variant.ready if pod.cap_bound is not None]
    return VariantCapacity(
        *capacity_at_objective(model, settings, min(bounds, default=None)), revision
    )


def _is_same(known: VariantCapacity, current: VariantCapacity) -> bool:
    """Return whether a measurement of the same revision confirms the known one."""
    change = abs(current.rows_per_second - known.rows_per_second)
    return known.revision == current.revision and change <= DEAD_BAND * known.rows_per_second
