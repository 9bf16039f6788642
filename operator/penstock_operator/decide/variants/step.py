"""`variants_step`: one tick of a pool with variants, the law's count as a mix of unlike replicas. Pure.

The law decides a count of reference replicas; `rows_needed` is that count in rows a second. Since replicas of other variants
may be smaller than one of the reference, the fraction of its last replica that the need leaves unused is not bought: growth
follows the exact need at once, and a lower one must suffice, with the law's margin, for the law's hold.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import BatchPlan
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.capacity_at_objective.replicas import (
    DEAD_BAND,
    Count,
    hold_seconds,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_operator.decide.variants.capacity import Capacities, Variant, measured_capacities
from penstock_operator.decide.variants.exchange import exchange
from penstock_operator.decide.variants.mix import (
    START_SECONDS,
    Mix,
    MixReason,
    MixTerm,
    VariantOffer,
    cheapest_mix,
)
from penstock_operator.decide.variants.signals import (
    ROUNDING,
    as_one_pool,
    reference_count,
    reference_variant,
    weights,
)

LAW = CapacityAtObjective()
ANY_DEMAND = 1e-3
"""Rows a second that stand for an unknown demand: variants without a measurement are probed."""


class VariantsState(NamedTuple):
    """State of a pool with variants."""

    law: CapacityState
    capacities: Capacities
    reference: str | None = None
    """The variant that the law counts in."""
    needs: tuple[tuple[float, float], ...] = ()
    """(time, rows a second with the margin), a falling staircase over the hold."""
    rows_needed: float | None = None
    """Rows a second that the last mix was made for."""


class VariantsDecision(NamedTuple):
    """What a tick decides."""

    law: Decision
    """In replicas of the reference."""
    mix: Mix
    """The mix to arrive at."""
    counts: Mapping[str, int]
    """Desired count of each variant now: a replica leaves when what replaces it is Ready."""
    caps: Mapping[str, int]
    """Planned cap of each measured variant; the law's own, with its back-off, of the reference."""
    weights: Mapping[str, float]
    """Capacity of a replica over the reference's: the split of the traffic per pod at a router."""
    rows_needed: float | None
    """Rows a second that the mix serves at the objective; None before the first measurement."""


def initial(now: float) -> VariantsState:
    """Return the state of a new pool."""
    return VariantsState(LAW.initial(now), {})


def variants_step(
    state: VariantsState, observed: LawInput, variants: Sequence[Variant], now: float
) -> tuple[VariantsState, VariantsDecision]:
    """Return the next state and the decision; `observed` has the signals of all pods, its pods and bounds are replaced."""
    reference = reference_variant(state.reference, variants, state.capacities)
    if reference != state.reference:
        state = _counted_in(state, reference, now)
    weight = weights(reference, variants, state.capacities)
    count = _count(state, variants, weight)
    pool = as_one_pool(observed, reference, variants, state.capacities, count)
    law_state, decision = LAW.step(state.law, pool, now)
    capacities = measured_capacities(state.capacities, law_state, variants, observed.settings)
    state = state._replace(law=law_state, capacities=capacities)
    offers = [_offer(variant, capacities, decision) for variant in variants]
    running = {variant.name: variant.replicas for variant in variants}
    known = None if reference is None else capacities[reference].rows_per_second
    if known and decision.metrics_available:
        state = _with_need(state, decision, known, observed, now)
    rows = state.rows_needed
    if rows is None or not decision.metrics_available:
        mix = _unchanged(offers, running)
        counts = mix.counts
    else:
        mix = cheapest_mix(rows, offers, running)
        ready = {variant.name: len(variant.ready) for variant in variants}
        counts = exchange(rows, offers, mix.counts, running, ready)
    caps = {name: capacity.cap for name, capacity in capacities.items()}
    if reference is not None:
        caps[reference] = decision.cap
    return state, VariantsDecision(decision, mix, counts, caps, weight, rows)


def _offer(variant: Variant, capacities: Capacities, decision: Decision) -> VariantOffer:
    known = capacities.get(variant.name)
    return VariantOffer(
        variant.name,
        None if known is None else known.rows_per_second,
        variant.per_hour,
        variant.least,
        variant.most,
        decision.observations.startup_seconds or START_SECONDS,
    )


def _count(state: VariantsState, variants: Sequence[Variant], weight: Mapping[str, float]) -> int:
    """Return the count that the law last decided, in replicas of the reference; during an exchange more of them run."""
    known = None if state.reference is None else state.capacities[state.reference].rows_per_second
    if not known or state.rows_needed is None:
        return reference_count(variants, state.capacities, weight)
    return max(ceil(state.rows_needed / known - ROUNDING), 1)


def _counted_in(state: VariantsState, reference: str | None, now: float) -> VariantsState:
    """Return the state for another reference: counts, plan and hold begin again; forecasts and curves are in rows and stay."""
    law = state.law._replace(
        counting=Count(begun=now), plan=BatchPlan(), settled_since=None, replicas=None
    )
    return state._replace(law=law, reference=reference)


def _with_need(
    state: VariantsState, decision: Decision, capacity: float, observed: LawInput, now: float
) -> VariantsState:
    """Return the state with the rows a second that the mix must serve."""
    top = decision.replicas * capacity
    rows_before, needs = (
        (top, ((now, top),)) if state.rows_needed is None else (state.rows_needed, state.needs)
    )
    if not decision.demands:
        return state._replace(rows_needed=rows_before, needs=needs)
    exact = min(max(demand.replicas for demand in decision.demands) * capacity, top)
    margin = exact * (1 + DEAD_BAND)
    startup = decision.observations.startup_seconds or START_SECONDS
    hold = hold_seconds(observed.settings, startup)
    needs = (
        *((when, rows) for when, rows in needs if rows > margin and now - when <= hold),
        (now, margin),
    )
    rows = max(exact, min(rows_before, needs[0][1]), top - capacity)
    return state._replace(needs=needs, rows_needed=min(rows, top))


def _unchanged(offers: Sequence[VariantOffer], running: Mapping[str, int]) -> Mix:
    """Return what runs, within its bounds; a pool of no replica starts one of each variant."""
    counts = {
        offer.name: min(max(running.get(offer.name, 0), offer.least), offer.most)
        for offer in offers
    }
    if not any(counts.values()):
        return cheapest_mix(ANY_DEMAND, offers, running)
    why = "the count stays until signals and a service curve are known"
    reason = MixReason(MixTerm.UNMEASURED, why)
    return Mix(counts, 0.0, None, dict.fromkeys(counts, reason))
