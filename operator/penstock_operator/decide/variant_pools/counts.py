"""Replicas of each variant, by the scaling mode.

Manual, Recommend: `spec.replicas` in all: every variant's minReplicas, the rest in the order of the list.
Hold:              the counts of the variants' pools stay within the variants' bounds; a new pool has those of Manual.
Auto:              the cheapest mix for the demand of all pods together (`decide/variants/decision.py`), and replicas for batch
                   work (`decide/variants/batch_work.py`).

In mode Auto each variant's own law reports what its pods received and what one replica serves within the objective. A variant
that has not been measured since the operator started keeps the capacity and the price in the parent's status; while no serving variant has
signals, the counts stay. After another mode the demand before is unknown, as after a start of the operator.

The bound of a policy on replicas limits the sum in every mode; it takes precedence over minReplicas of variants (`ranges.py`).

A variant whose pods cannot start, such as by an image that fails or without a node, that a budget limits, or whose pool the API
server rejects, gets no more pods for now.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from penstock_api import names
from penstock_api.conditions import ConditionStatus
from penstock_api.types.scaling import ScalingMode
from penstock_api.types.variants import VariantSpec
from penstock_operator.decide.cost.prices import PriceList, UnknownPrice
from penstock_operator.decide.quota_ledger import BUDGET_LIMITED
from penstock_operator.decide.scaling.batch_work import batch_demand
from penstock_operator.decide.scaling.law import BatchWorkPlan
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.decide.variant_pools.ranges import in_order, kept_within, replica_ranges
from penstock_operator.decide.variant_pools.terms import (
    VariantTerms,
    still_measured,
    variant_terms,
)
from penstock_operator.decide.variants.batch_work import with_batch_work
from penstock_operator.decide.variants.decision import (
    MixState,
    VariantInput,
    bounded,
    decide_mix,
    offers,
    with_measured,
)
from penstock_operator.decide.variants.mix import Mix
from penstock_operator.observed import PoolView, Rejection, VariantView
from penstock_operator.variants import NO_FIGURES


class CountsState(NamedTuple):
    """State of the counts between passes."""

    mix: MixState
    terms: Mapping[str, VariantTerms] = MappingProxyType({})
    """Terms with which each variant was measured."""


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
    """Serving variants whose law has no figures, so that their Ready replicas stay."""
    batch: Mapping[str, int] = MappingProxyType({})
    """Replicas of each variant that only batch work needs."""
    batch_work: BatchWorkPlan | None = None


class CountsInput(NamedTuple):
    """A pool with variants at one pass."""

    view: PoolView
    spec: EffectiveSpec
    pools: Mapping[str, VariantView]
    """The variants' pools by the name of the variant."""
    routed: bool
    """Whether a gateway splits the requests by capacity."""
    prices: PriceList | UnknownPrice | None = None
    """Of the policies that select the pool."""


def decide_counts(
    parent: CountsInput, before: CountsState, now: float
) -> tuple[CountsState, VariantCounts]:
    """Return the next state and the counts."""
    view, spec, pools, routed, prices = parent
    variants = view.pool.spec.variants or ()
    terms = {name: variant_terms(each, spec, prices) for name, each in pools.items()}
    kept = still_measured(before.mix, before.terms, terms)
    if not isinstance(prices, PriceList):
        kept = kept._replace(prices={})
    state = CountsState(kept, {**before.terms, **terms})
    running = {name: each.pool.spec.replicas for name, each in pools.items()}
    mode = spec.scaling_mode
    bound, is_new = spec.replicas_bound, not running
    if mode in (ScalingMode.MANUAL, ScalingMode.RECOMMEND) or (mode is ScalingMode.HOLD and is_new):
        counts = in_order(variants, spec.replicas, bound)
    else:
        counts = kept_within(running, variants, bound)
    stuck = {**stuck_pods(pools), **rejected_pods(view, running)}
    inputs = variant_inputs(variants, pools, stuck, spec)
    mixed = with_measured(state.mix, inputs)
    if mode not in (ScalingMode.AUTO, ScalingMode.RECOMMEND):
        known = state._replace(mix=mixed.without_demand())
        return known, VariantCounts(counts, sum(counts.values()))
    blind = tuple(each.name for each in inputs if each.blind)
    if blind and all(each.blind for each in inputs if each.ready):
        kept_counts = (
            counts
            if mode is ScalingMode.RECOMMEND
            else bounded(offers(mixed, inputs, {}), counts, spec.law)
        )
        known = state._replace(mix=mixed)
        return known, VariantCounts(kept_counts, sum(kept_counts.values()), blind=blind)
    mixed, decided = decide_mix(state.mix, inputs, spec.law, routed=routed, now=now)
    batch = batch_demand(spec.batch_work, view.batches, now)
    decided = with_batch_work(decided, batch, mixed, inputs, spec.law)
    acts = mode is ScalingMode.AUTO
    return state._replace(mix=mixed), VariantCounts(
        decided.counts if acts else counts,
        sum(decided.target.values()),
        decided.demand,
        decided.mix,
        blind,
        batch=decided.batch if acts else {},
        batch_work=decided.batch_work,
    )


def variant_inputs(
    variants: Sequence[VariantSpec],
    pools: Mapping[str, VariantView],
    stuck: Mapping[str, int],
    spec: EffectiveSpec,
) -> tuple[VariantInput, ...]:
    """Return what the decision reads of each variant; `stuck` are the pods of those that get no more for now."""
    ranges = replica_ranges(variants, spec.replicas_bound)
    inputs = []
    for each in variants:
        pool, (least, most) = pools.get(each.name), ranges[each.name]
        inputs.append(
            VariantInput(
                name=each.name,
                figures=NO_FIGURES if pool is None else pool.figures,
                least=least,
                most=min(most, spec.law.max_replicas),
                running=0 if pool is None else pool.pool.spec.replicas,
                ready=0 if pool is None else pool.pool.status.ready_replicas or 0,
                stuck=stuck.get(each.name),
            )
        )
    return tuple(inputs)


def stuck_pods(pools: Mapping[str, VariantView]) -> dict[str, int]:
    """Return the pods of each variant that gets no more for now: they cannot start, or a budget limits it."""
    stuck = {}
    for name, each in pools.items():
        status, requested = each.pool.status, each.pool.spec.replicas
        bad = {item.type for item in status.conditions or () if item.status is ConditionStatus.TRUE}
        granted = (status.replicas or 0) if BUDGET_LIMITED in bad else requested
        startable = each.figures.startable
        pods = granted if startable is None else min(startable, granted)
        if pods < requested:
            stuck[name] = pods
    return stuck


def rejected_pods(view: PoolView, running: Mapping[str, int]) -> dict[str, int]:
    """Return the pods of each variant whose pool the API server rejects, which stays as it is."""
    rejected = {item.name for item in view.rejections if item.reason != Rejection.ALTERED}
    return {
        each.name: running.get(each.name, 0)
        for each in view.pool.spec.variants or ()
        if names.variant_pool(view.pool.name, each.name) in rejected
    }
