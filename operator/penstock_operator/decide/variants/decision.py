"""`decide_mix`: the replicas of each variant for the demand of the whole pool. Pure; the operator and the simulator call it.

demand and headroom of all variants together (`demand.py`)
  -> what a replica of each variant serves of it  -> the cheapest mix within the bounds (`mix.py`)
  -> the counts on the way to it, as replicas become Ready (`exchange.py`)

A need rises at once, and falls to the largest value of the whole hold, as the count of a pool does. After a start of the
operator the needs before are unknown, so that for one hold no replica leaves. A variant that gets no more pods for now counts
with those that it has, so that the others serve the rest. If the mix would have more of them, one more stays requested, which
shows when the variant recovers. Ready replicas of a variant without signals stay, and its part of the demand is what it received last.
"""

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.replicas import (
    Staircase,
    hold_seconds,
    staircase,
)
from penstock_operator.decide.scaling.law import BatchWorkPlan
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.decide.variants.demand import (
    PooledState,
    PoolTerms,
    pooled_demand,
)
from penstock_operator.decide.variants.exchange import exchange
from penstock_operator.decide.variants.mix import (
    Mix,
    VariantOffer,
    steady_mix,
    unmet_demand,
)
from penstock_operator.variants import BatchShape, VariantFigures, VariantLoad

FIRST_STARTUP_SECONDS = 120.0
"""Start-up that is assumed until one has been measured."""
ROUTED_SECONDS = 5.0
"""Time in which every node routes to a pod that has become Ready; a replica that it replaces leaves later."""


class VariantInput(NamedTuple):
    """One variant at one tick."""

    name: str
    figures: VariantFigures
    least: int
    """minReplicas."""
    most: int
    """maxReplicas."""
    running: int
    """Present desired count."""
    ready: int = 0
    """Ready replicas."""
    stuck: int | None = None
    """Its pods, if it gets no more for now."""

    @property
    def blind(self) -> bool:
        """Return whether its pods serve and its law has no figures of them."""
        return self.figures.load is None and self.ready > 0


class MixState(NamedTuple):
    """State of the decision between ticks. Times are Unix seconds."""

    capacities: Mapping[str, float]
    """Rows a second of one replica within the objective, as measured last, by variant."""
    shapes: Mapping[str, BatchShape] = MappingProxyType({})
    """Of the same measurement."""
    pooled: PooledState = PooledState()
    needs: Mapping[str, Staircase] = MappingProxyType({})
    """Capacity that suffices if only this variant serves."""
    ready: tuple[tuple[float, Mapping[str, int]], ...] = ()
    """(time, Ready replicas of each variant) of the last `ROUTED_SECONDS`, and the last before them."""
    begun: float | None = None
    """Time of the first decision; 0 for a new pool, None before it."""
    first: Mapping[str, int] = MappingProxyType({})
    """Desired counts at that time."""
    target: Mapping[str, int] = MappingProxyType({})
    """The mix of the last tick."""
    is_short: bool = False
    """Whether no mix served the demand at the last tick."""
    loads: Mapping[str, VariantLoad] = MappingProxyType({})
    """Last load of each variant with Ready replicas."""
    time: float | None = None
    """Time of the last decision."""
    prices: Mapping[str, float] = MappingProxyType({})
    """Price of an hour of one replica, by the pods that each variant had last."""

    def without_demand(self) -> "MixState":
        """Return the state of a pool that no demand is known of."""
        return MixState(self.capacities, self.shapes, prices=self.prices)

    def price(self, name: str, figures: VariantFigures) -> float | None:
        """Return the price of an hour of one replica of a variant: of its pods, of those before them, else of its template."""
        return self.prices.get(name, figures.template_per_hour)


class MixDecision(NamedTuple):
    """The counts of a tick."""

    counts: Mapping[str, int]
    """Desired replicas of each variant now."""
    target: Mapping[str, int]
    """Those to arrive at."""
    demand: float
    """Rows a second that the target serves within the objective, headroom included."""
    mix: Mix
    offers: tuple[VariantOffer, ...] = ()
    """Those of all variants, as if each got pods."""
    batch: Mapping[str, int] = MappingProxyType({})
    """Replicas of the counts that only batch work needs (`batch_work.py`)."""
    batch_work: BatchWorkPlan | None = None
    """None without any, or while it is unknown."""


def with_measured(state: MixState, variants: Sequence[VariantInput]) -> MixState:
    """Return the state with the capacities and prices that are measured now; others stay as measured last."""
    measured = {each.name: each.figures for each in variants if each.figures.capacity is not None}
    capacities = {name: figures.capacity or 0.0 for name, figures in measured.items()}
    kept = {name: shape for name, shape in state.shapes.items() if name not in measured}
    shapes = {name: figures.shape for name, figures in measured.items() if figures.shape}
    prices = {
        each.name: each.figures.per_hour for each in variants if each.figures.per_hour is not None
    }
    return state._replace(
        capacities={**state.capacities, **capacities},
        shapes={**kept, **shapes},
        prices={**state.prices, **prices},
    )


def decide_mix(
    state: MixState,
    variants: Sequence[VariantInput],
    settings: LawSettings,
    *,
    routed: bool,
    now: float,
) -> tuple[MixState, MixDecision]:
    """Return the next state and the counts; `routed`: a gateway splits the requests by capacity.

    Times of a state are not comparable once the clock was set back: nothing is then known of the demand before.
    """
    if state.time is not None and now < state.time:
        state = state.without_demand()
    state = with_measured(state._replace(time=now), variants)
    variants = [_with_ready(state, each) for each in variants]
    running = {each.name: each.running for each in variants}
    if state.begun is None:
        begun = now if any(running.values()) else 0.0
        state = state._replace(begun=begun, first=running)
    startup = max([each.figures.startup_seconds or 0.0 for each in variants], default=0.0)
    hold = hold_seconds(settings, startup)
    terms = PoolTerms(settings, startup, routed, not state.is_short)
    state, needs = _held_needs(state, variants, terms, hold, now)
    demand = min(needs.values(), default=0.0)
    all_offers = offers(state, variants, needs)
    offered = tuple(limited(each, offer) for each, offer in zip(variants, all_offers, strict=True))
    mix = steady_mix(settings.max_replicas, demand, offered, running, state.target)
    target = bounded(offered, _wanted(mix, offered, running), settings)
    mix = mix._replace(unmet=max(mix.unmet, unmet_demand(demand, offered, target)))
    recovering = _recovering(state, variants, all_offers, settings, demand)
    state = state._replace(target=target, is_short=mix.unmet > 0)
    state, routed_to = _routed(state, variants, now)
    ready = {
        each.name: each.ready if target[each.name] < each.running else routed_to[each.name]
        for each in variants
    }
    counts = exchange(demand - mix.unmet, offered, target, running, ready)
    for each in variants:
        kept = min(each.running, recovering.get(each.name, 0))
        counts[each.name] = max(counts[each.name], kept)
        if now - (state.begun or 0.0) <= hold:
            before = min(state.first.get(each.name, 0), each.running, each.most)
            counts[each.name] = max(counts[each.name], before)
    return state, MixDecision(counts, target, demand, mix, tuple(all_offers))


def _with_ready(state: MixState, variant: VariantInput) -> VariantInput:
    """Return a variant without signals with its Ready replicas as its minimum, unless it misses the objective."""
    if not variant.blind or state.capacities.get(variant.name) == 0:
        return variant
    ready = min(variant.ready, variant.running, variant.most)
    return variant._replace(least=max(variant.least, ready))


def _wanted(
    mix: Mix, offered: Sequence[VariantOffer], running: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the counts of the mix; while none serves the demand, replicas that miss the objective stay, which serve some of it."""
    if not mix.unmet and any(each.capacity and each.most for each in offered):
        return mix.counts
    late = {each.name for each in offered if not each.capacity}
    return {
        name: max(count, running[name]) if name in late else count
        for name, count in mix.counts.items()
    }


def _held_needs(
    state: MixState, variants: Sequence[VariantInput], terms: PoolTerms, hold: float, now: float
) -> tuple[MixState, dict[str, float]]:
    """Return the state with the present needs, and the largest of the hold, by variant that can serve.

    A variant whose batches are not known, as after a start of the operator, needs as much as the one that needs most.
    """
    loads = _loads(state, variants)
    able = [each.name for each in variants if state.capacities.get(each.name)]
    shapes = {name: state.shapes.get(name) for name in able or [each.name for each in variants]}
    pooled, demand = pooled_demand(state.pooled, loads, shapes, terms, now)
    known = {name: need for name, need in demand.needs.items() if shapes[name] is not None}
    most = max(known.values(), default=0.0)
    present = {name: need if name in known or not known else most for name, need in demand.needs.items()}  # fmt: skip
    stairs = {
        name: staircase(_earlier(state, present, name), need, hold, now)
        for name, need in present.items()
    }
    largest = {name: steps[0][1] for name, steps in stairs.items()}
    return state._replace(pooled=pooled, needs=stairs, loads=loads), largest


def _loads(state: MixState, variants: Sequence[VariantInput]) -> dict[str, VariantLoad]:
    """Return the load of each variant; of one without signals what it received last, if others have signals."""
    loads = {each.name: each.figures.load for each in variants if each.figures.load is not None}
    time = max((each.time for each in loads.values()), default=None)
    if time is None:
        return loads
    last = {
        each.name: state.loads[each.name]
        for each in variants
        if each.blind and each.name in state.loads
    }
    still = {name: load._replace(time=time, excess=0.0, guarded=0.0) for name, load in last.items()}
    return {**loads, **still}


def _earlier(state: MixState, present: Mapping[str, float], name: str) -> Staircase:
    """Return the earlier needs of a variant; of one that is new in proportion to another's, since the demand was the same."""
    if name in state.needs:
        return state.needs[name]
    other = next((each for each in state.needs if present.get(each)), None)
    if other is None:
        return ()
    share = present[name] / present[other]
    return tuple((when, share * need) for when, need in state.needs[other])


def offers(
    state: MixState, variants: Sequence[VariantInput], needs: Mapping[str, float]
) -> list[VariantOffer]:
    """Return what each variant offers to the mix: of the demand, which is the smallest need, as much as its own need permits."""
    demand = min(needs.values(), default=0.0)
    offered = []
    for each in variants:
        capacity, need = state.capacities.get(each.name), needs.get(each.name, 0.0)
        offered.append(
            VariantOffer(
                each.name,
                capacity * demand / need if capacity and need else capacity,
                state.price(each.name, each.figures),
                each.least,
                each.most,
                each.figures.startup_seconds or FIRST_STARTUP_SECONDS,
            )
        )
    return offered


def limited(variant: VariantInput, offer: VariantOffer) -> VariantOffer:
    """Return the offer of a variant that may get no more pods for now."""
    most = offer.most if variant.stuck is None else min(variant.stuck, offer.most)
    return offer._replace(most=max(most, offer.least))


def _recovering(
    state: MixState,
    variants: Sequence[VariantInput],
    offered: Sequence[VariantOffer],
    settings: LawSettings,
    demand: float,
) -> dict[str, int]:
    """Return one replica more than its pods for each variant that gets no more of them, if the mix would have more."""
    stuck = {each.name: each.stuck for each in variants if each.stuck is not None}
    if not stuck:
        return {}
    running = {each.name: each.running for each in variants}
    mix = steady_mix(settings.max_replicas, demand, offered, running, state.target)
    wanted = bounded(offered, mix.counts, settings)
    return {name: pods + 1 for name, pods in stuck.items() if wanted[name] > pods}


def _routed(
    state: MixState, variants: Sequence[VariantInput], now: float
) -> tuple[MixState, dict[str, int]]:
    """Return the Ready replicas of each variant that every node routes to: those of all the last `ROUTED_SECONDS`.

    A status is older than the count that was requested last, so a replica that leaves may still be Ready in it.
    """
    present = {each.name: min(each.ready, each.running) for each in variants}
    recent = [each for each in state.ready if now - each[0] < ROUTED_SECONDS]
    seen = (*state.ready[: len(state.ready) - len(recent)][-1:], *recent, (now, present))
    routed = {name: min(counts.get(name, 0) for _, counts in seen) for name in present}
    return state._replace(ready=seen), routed


def bounded(
    offered: Sequence[VariantOffer], counts: Mapping[str, int], settings: LawSettings
) -> dict[str, int]:
    """Return counts within the variants' bounds, of which the sum is within those of the pool where these allow it.

    What exceeds the pool's maximum is taken from the replicas that serve least, and what its minimum lacks is added to the
    cheapest variant that meets the objective; of equal ones from the end of the list, and to its beginning.
    """
    low, high = settings.min_replicas, settings.max_replicas
    result = {
        each.name: max(min(counts.get(each.name, 0), each.most), each.least) for each in offered
    }
    surplus = sum(result.values()) - high
    for _, each in sorted(enumerate(offered), key=_last_choice):
        removed = max(min(surplus, result[each.name] - each.least), 0)
        result[each.name] -= removed
        surplus -= removed
    missing = low - sum(result.values())
    for each in sorted(offered, key=_first_choice):
        added = max(min(missing, each.most - result[each.name]), 0)
        result[each.name] += added
        missing -= added
    return result


def _last_choice(item: tuple[int, VariantOffer]) -> tuple[float, int]:
    """Return the order in which replicas leave above the maximum: those that serve least, from the end of the list."""
    place, offer = item
    return offer.capacity or 0.0, -place


def _first_choice(offer: VariantOffer) -> tuple[int, float]:
    """Return the order in which variants get replicas without demand: measured ones by price, hopeless ones last."""
    if offer.capacity:
        return 0, inf if offer.per_hour is None else offer.per_hour
    return (1, 0.0) if offer.capacity is None else (2, 0.0)
