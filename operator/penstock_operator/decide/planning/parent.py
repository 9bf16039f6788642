"""The plan of a pool with variants: the pools of its variants, their counts, the one Service, and the status. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock_api.types.scaling import ScalingAlgorithm
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.cost.prices import price_list
from penstock_operator.decide.gateway import GatewayPlan, gateway_plan
from penstock_operator.decide.manifests.metadata import variant_name
from penstock_operator.decide.manifests.service import own_service, service
from penstock_operator.decide.manifests.writes import child_write
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.decide.planning import memoized
from penstock_operator.decide.planning.memoized import AppliedPolicies, Memo
from penstock_operator.decide.planning.pool_draft import PassContext
from penstock_operator.decide.route import RouteStep
from penstock_operator.decide.scaling import checkpoint
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.decide.spec.scaling_mode import with_unset_mode
from penstock_operator.decide.variant_pools.conditions import variants_conditions
from penstock_operator.decide.variant_pools.counts import CountsInput, CountsState, decide_counts
from penstock_operator.decide.variant_pools.outcome import VariantsOutcome
from penstock_operator.decide.variant_pools.ranges import lowered_minimums
from penstock_operator.decide.variant_pools.status import (
    variants_events,
    variants_figures,
    variants_status,
)
from penstock_operator.decide.variant_pools.weights import (
    as_annotation,
    settled_weights,
    weights,
)
from penstock_operator.decide.variant_pools.writes import pool_writes, variant_pools
from penstock_operator.decide.variants.decision import MixState
from penstock_operator.decide.variants.serialize import pooled_checkpoint, pooled_state
from penstock_operator.observed import PoolView, VariantView

ALGORITHM = ScalingAlgorithm.CAPACITY_AT_OBJECTIVE.value


class ParentState(NamedTuple):
    """State of a pool with variants between passes."""

    counts: CountsState
    policies: Memo[AppliedPolicies] | None = None
    checkpointed_at: float | None = None
    """Time of the last checkpoint decision; None at the pool's first pass."""


def plan_parent(view: PoolView, state: object | None, context: PassContext) -> PoolPlan:
    """Return the plan of a pool with variants; `state` is the `law_state` of its last plan."""
    observed, config, now = context.observed, context.config, context.now
    view = with_unset_mode(view, observed.pool_schema)
    before = state if isinstance(state, ParentState) else ParentState(_first_state(view, now))
    applied = memoized.applied_policies(before.policies, view, observed, context.open_now)
    spec = applied.value.effective
    pools = {variant_name(name, view.pool.name): each for name, each in variant_pools(view).items()}
    gateway = gateway_plan(view, observed.routed_pools, config, now)
    routed = gateway.route.step is RouteStep.ROUTED
    given = CountsInput(view, spec, pools, routed, price_list(applied.value.policies))
    counts_state, counts = decide_counts(given, before.counts, now)
    mix = counts_state.mix
    capacities, prices = mix.capacities, _prices(mix, pools)
    weighed = settled_weights(weights(capacities, tuple(counts.replicas)), _annotations(view))
    bounded = lowered_minimums(view.pool.spec.variants or (), applied.value.policies)
    outcome = VariantsOutcome(
        view, spec, counts, capacities, pools, gateway, weighed, prices, bounded
    )
    writes = _writes(outcome, spec, gateway)
    conditions = variants_conditions(outcome)
    checkpointed_at, stored = _checkpoint(view, before.checkpointed_at, counts_state, now)
    return PoolPlan(
        uid=view.pool.uid,
        namespace=view.pool.namespace,
        name=view.pool.name,
        writes=writes,
        limits=None,
        pushes=(),
        status=variants_status(outcome, conditions, now),
        events=tuple(variants_events(outcome, conditions)),
        law_state=ParentState(counts_state, applied, checkpointed_at),
        active=True,
        figures=variants_figures(outcome, conditions),
        checkpoint=stored,
    )


def _prices(mix: MixState, pools: Mapping[str, VariantView]) -> dict[str, float]:
    """Return the known price of an hour of one replica of each variant."""
    prices = {name: mix.price(name, each.figures) for name, each in pools.items()}
    return {name: price for name, price in prices.items() if price is not None}


def _writes(
    outcome: VariantsOutcome, spec: EffectiveSpec, gateway: GatewayPlan
) -> tuple[ChildWrite, ...]:
    view = outcome.view
    live = view.children.get(("Service", view.pool.name))
    weighed = as_annotation(outcome.weights)
    manifest = service(view.pool, spec.service, gateway.route, weights=weighed)
    client = child_write(view.pool, live, manifest)
    if client is not None and client.write is Write.CREATE and outcome.conflicts:
        client = None
    pools = pool_writes(view, outcome.counts.replicas, outcome.counts.batch)
    if outcome.conflicts:
        pools = tuple(write for write in pools if write.write is not Write.CREATE)
    return (*pools, *((client,) if client is not None else ()), *gateway.writes)


def _annotations(view: PoolView) -> Mapping[str, str]:
    """Return the annotations of the pool's Service."""
    live = own_service(view)
    return {} if live is None else live.manifest["metadata"].get("annotations") or {}


def _checkpoint(
    view: PoolView, last: float | None, state: CountsState, now: float
) -> tuple[float, ChildWrite | None]:
    """Return the time of the last checkpoint decision, and the checkpoint to write if one is due."""
    if last is None or 0 <= now - last < checkpoint.INTERVAL_SECONDS:
        return (now if last is None else last), None
    data = pooled_checkpoint(state.mix.pooled)
    return now, checkpoint.checkpoint_write(view, ALGORITHM, data, now) if data else None


def _first_state(view: PoolView, now: float) -> CountsState:
    """Return the state after a start of the operator: capacities and prices in the status, and the demand in the checkpoint.

    A variant that missed the objective counts as unmeasured, since the objective may have changed meanwhile.
    """
    capacities = {
        each.name: capacity
        for each in view.pool.status.variants or ()
        if (capacity := float(each.rows_per_second_per_replica or 0.0))
    }
    prices = {
        each.name: float(each.per_replica_hour)
        for each in view.pool.status.variants or ()
        if each.per_replica_hour is not None
    }
    mix, known = MixState(capacities, prices=prices), checkpoint.stored_checkpoint(view)
    if known is None or known.algorithm != ALGORITHM:
        return CountsState(mix)
    return CountsState(mix._replace(pooled=pooled_state(known.data, known.written, now)))
