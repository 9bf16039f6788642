"""Replicas of each variant, by the scaling mode.

Manual, Recommend: `spec.replicas` in all: every variant's minReplicas, the rest in the order of the list.
Hold:              the counts of the variants' pools stay; a new pool has those of Manual.
Auto:              the cheapest mix for the rows a second that all pods together have to serve.

In mode Auto each variant's own law reports two figures: what one replica serves within the objective, and the rows a second
that the variant's pods have to serve, with the law's headroom. The sum of the latter is the demand of the mix. It rises at
once, and falls to the largest value of the whole hold, as the count of a pool does. After a start of the
operator or another mode the demand before is unknown, so that for one hold no replica leaves. A variant that has not been measured since
the operator started keeps the capacity in the parent's status; while a serving variant has no signals, the counts stay.

A variant whose pool is stalled, such as by an image that fails or without a node, or limited by a budget, counts with the
pods that it has, so that the others serve the rest. One more of its replicas stays requested, which shows when it recovers.
"""

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from penstock_api.conditions import ConditionStatus
from penstock_api.types.live import ScalingMode
from penstock_api.types.pool import PoolSpec
from penstock_api.types.variants import VariantSpec
from penstock_operator.decide.quota_ledger import BUDGET_LIMITED
from penstock_operator.decide.scaling.capacity_at_objective.replicas import hold_seconds
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.decide.status.conditions.kstatus import STALLED
from penstock_operator.decide.variants.exchange import exchange
from penstock_operator.decide.variants.mix import (
    Mix,
    VariantOffer,
    mix_within,
    unmet_demand,
)
from penstock_operator.observed import PoolView, VariantFigures, VariantView

FIRST_STARTUP_SECONDS = 120.0
"""Start-up that is assumed until one has been measured."""
ROUTED_SECONDS = 5.0
"""Time in which every node routes to a pod that has become Ready; a replica that it replaces leaves later."""


class CountsState(NamedTuple):
    """State of the counts between passes. Times are Unix seconds."""

    capacities: Mapping[str, float]
    """Rows a second of one replica within the objective, as measured last, by variant."""
    needs: tuple[tuple[float, float], ...] = ()
    """(time, demand), a falling staircase of the maximum since any time."""
    ready: tuple[tuple[float, Mapping[str, int]], ...] = ()
    """(time, Ready replicas of each variant) of the last `ROUTED_SECONDS`, and the last before them."""
    specs: Mapping[str, PoolSpec] = MappingProxyType({})
    """Spec with which each variant's capacity was measured, without what does not change it."""
    begun: float | None = None
    """Time since which the demand is known; 0 for a new pool, None in modes without a mix."""


class VariantCounts(NamedTuple):
    """The decision."""

    replicas: Mapping[str, int]
    """By variant."""
    recommended: int
    """Replicas in all that the mix has in modes Auto and Recommend; else those of the mode."""
    demand: float | None = None
    """Rows a second; None in modes without a mix, or while it is unknown."""
    mix: Mix | None = None
    blind: tuple[str, ...] = ()
    """Serving variants whose law has no figures, so that the counts stay."""


def decide_counts(
    view: PoolView,
    spec: EffectiveSpec,
    pools: Mapping[str, VariantView],
    before: CountsState,
    now: float,
) -> tuple[CountsState, VariantCounts]:
    """Return the next state and the counts; `pools` are the variants' pools by the name of the variant."""
    variants = view.pool.spec.variants or ()
    state = _with_capacities(before, pools)
    running = {name: each.pool.spec.replicas for name, each in pools.items()}
    mode = spec.scaling_mode
    is_new_hold = mode is ScalingMode.HOLD and not running
    if is_new_hold or mode in (ScalingMode.MANUAL, ScalingMode.RECOMMEND):
        counts = in_order(variants, spec.replicas)
    else:
        counts = {each.name: running.get(each.name, each.min_replicas or 0) for each in variants}
    if mode not in (ScalingMode.AUTO, ScalingMode.RECOMMEND):
        return state._replace(needs=(), begun=None), VariantCounts(counts, sum(counts.values()))
    offered = offers(variants, pools, state, spec)
    blind = tuple(name for name, each in pools.items() if _is_blind(each))
    if blind:
        kept_counts = counts if mode is ScalingMode.RECOMMEND else bounded(offered, counts, spec)
        return state, VariantCounts(kept_counts, sum(kept_counts.values()), blind=blind)
    if state.begun is None:
        state = state._replace(begun=now if running else 0.0)
    need = sum(each.figures.need or 0.0 for each in pools.values())
    hold = hold_seconds(spec.law, _startup(pools))
    state = _recorded(state, need, hold, now)
    demand = max(value for _, value in state.needs)
    stuck = stuck_pods(pools)
    offered = tuple(
        each._replace(most=max(min(stuck.get(each.name, each.most), each.most), each.least))
        for each in offered
    )
    mix = mix_within(spec.law.max_replicas, demand, offered, running)
    wanted = mix.counts
    if not any(each.capacity for each in offered):  # no mix serves the demand, so none is smaller
        wanted = {name: max(count, counts[name]) for name, count in wanted.items()}
    mixed = bounded(offered, wanted, spec)
    mix = mix._replace(unmet=max(mix.unmet, unmet_demand(demand, offered, mixed)))
    if mode is ScalingMode.RECOMMEND:
        return state, VariantCounts(counts, sum(mixed.values()), demand, mix)
    state, routed = _routed(state, pools, now)
    ready = {
        name: (each.pool.status.ready_replicas or 0)
        if mixed[name] < running[name]
        else routed[name]
        for name, each in pools.items()
        if name in mixed
    }
    chosen = exchange(demand - mix.unmet, offered, mixed, running, ready)
    for name in stuck.keys() & chosen.keys():
        chosen[name] = max(chosen[name], min(running[name], stuck[name] + 1))
    if now - (state.begun or 0.0) <= hold:
        chosen = {
            each.name: max(chosen[each.name], min(running.get(each.name, 0), each.most))
            for each in offered
        }
    return state, VariantCounts(chosen, sum(mixed.values()), demand, mix)


def _routed(
    state: CountsState, pools: Mapping[str, VariantView], now: float
) -> tuple[CountsState, dict[str, int]]:
    """Return the Ready replicas of each variant that every node routes to: those of all the last `ROUTED_SECONDS`.

    A status is older than the count that was requested last, so a replica that leaves may still be Ready in it.
    """
    present = {
        name: min(each.pool.status.ready_replicas or 0, each.pool.spec.replicas)
        for name, each in pools.items()
    }
    recent = [each for each in state.ready if now - each[0] < ROUTED_SECONDS]
    seen = (*state.ready[: len(state.ready) - len(recent)][-1:], *recent, (now, present))
    routed = {name: min(counts.get(name, 0) for _, counts in seen) for name in present}
    return state._replace(ready=seen), routed


def stuck_pods(pools: Mapping[str, VariantView]) -> dict[str, int]:
    """Return the pods of each variant that gets no more for now: its pool is stalled, or a budget limits it."""
    stuck = {}
    for name, each in pools.items():
        status = each.pool.status
        bad = {item.type for item in status.conditions or () if item.status is ConditionStatus.TRUE}
        pods = status.replicas if BUDGET_LIMITED in bad else status.ready_replicas
        if bad & {STALLED, BUDGET_LIMITED} and (pods or 0) < each.pool.spec.replicas:
            stuck[name] = pods or 0
    return stuck


def offers(
    variants: Sequence[VariantSpec],
    pools: Mapping[str, VariantView],
    state: CountsState,
    spec: EffectiveSpec,
) -> tuple[VariantOffer, ...]:
    """Return what each variant offers to the mix."""
    most = spec.law.max_replicas
    known = {name: each.figures for name, each in pools.items()}
    return tuple(
        VariantOffer(
            each.name,
            state.capacities.get(each.name),
            known.get(each.name, VariantFigures()).per_hour,
            each.min_replicas or 0,
            most if each.max_replicas is None else min(each.max_replicas, most),
            known.get(each.name, VariantFigures()).startup_seconds or FIRST_STARTUP_SECONDS,
        )
        for each in variants
    )


def in_order(variants: Sequence[VariantSpec], total: int) -> dict[str, int]:
    """Return the counts of `total` replicas: every minReplicas, and the rest in the order of the list up to maxReplicas."""
    counts = {each.name: each.min_replicas or 0 for each in variants}
    left = total - sum(counts.values())
    for each in variants:
        room = left if each.max_replicas is None else each.max_replicas - counts[each.name]
        added = max(min(left, room), 0)
        counts[each.name] += added
        left -= added
    return counts


def bounded(
    offered: Sequence[VariantOffer], counts: Mapping[str, int], spec: EffectiveSpec
) -> dict[str, int]:
    """Return counts within the variants' bounds, of which the sum is within those of the pool where these allow it.

    What exceeds the pool's maximum is taken from the replicas that serve least, and what its minimum lacks is added to the
    cheapest variant that meets the objective; of equal ones from the end of the list, and to its beginning.
    """
    low, high = spec.law.min_replicas, spec.law.max_replicas
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


def _with_capacities(state: CountsState, pools: Mapping[str, VariantView]) -> CountsState:
    """Return the state with what is measured; a capacity from before an edit of the spec or an objective is forgotten."""
    specs = {
        name: each.pool.spec.model_copy(update={"replicas": 0, "scaling": None, "weight": None})
        for name, each in pools.items()
    }
    kept = {
        name: capacity
        for name, capacity in state.capacities.items()
        if specs.get(name) in (None, state.specs.get(name, specs.get(name)))
    }
    measured = {
        name: each.figures.capacity
        for name, each in pools.items()
        if each.figures.capacity is not None
    }
    return state._replace(capacities={**kept, **measured}, specs={**state.specs, **specs})


def _is_blind(variant: VariantView) -> bool:
    """Return whether pods of the variant serve and its law has no figures of them."""
    return variant.figures.need is None and bool(variant.pool.status.ready_replicas)


def _startup(pools: Mapping[str, VariantView]) -> float:
    """Return the longest start-up of the variants, in seconds."""
    known = [each.figures.startup_seconds for each in pools.values()]
    return max((each for each in known if each is not None), default=0.0)


def _recorded(state: CountsState, need: float, hold: float, now: float) -> CountsState:
    """Return the state with the present demand."""
    kept = tuple(
        (when, value) for when, value in state.needs if value > need and now - when <= hold
    )
    return state._replace(needs=(*kept, (now, need)))
