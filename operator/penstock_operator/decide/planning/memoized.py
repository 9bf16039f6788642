"""Memoized values of a pool that change only with an edit: effective spec, pinned template, stored limits, child writes.

Thousands of pools are decided every few seconds, and almost none of them was edited since. Each value is kept with
the key of everything that it depends on. Keys are compared by identity first, so that an unchanged object of the
cache costs nothing. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from penstock_api import names
from penstock_api.pod_contract import LimitsUpdate
from penstock_operator.decide import limits
from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.cost.pool_cost import PoolPrice, pool_price
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.decide.manifests.pinned_template import Pinned, pin
from penstock_operator.decide.manifests.workload import workload_key
from penstock_operator.decide.planning.children import all_writes, child_names, stored_defaults
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.spec.effective import EffectiveSpec, effective
from penstock_operator.decide.spec.schedules import Opening
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.observed import Observed, PolicyObject, PoolView

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Memo(Generic[Value]):
    """A value with the key that it was computed for."""

    key: tuple[object, ...]
    value: Value


def memoize(
    memo: Memo[Value] | None, key: tuple[object, ...], compute: Callable[[], Value]
) -> Memo[Value]:
    """Return `memo` if it has the same key, else a new one with the result of `compute`."""
    if memo is not None and same(memo.key, key):
        return memo
    return Memo(key, compute())


def same(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Return whether two keys are equal, part by part; parts may be tuples of parts."""
    return len(before) == len(after) and all(map(_equal, before, after))


def _equal(before: object, after: object) -> bool:
    if before is after:
        return True
    if isinstance(before, tuple) and isinstance(after, tuple):
        return same(before, after)
    return before == after


@dataclass(frozen=True, slots=True)
class AppliedPolicies:
    """The policies that select a pool, and the effective spec under them."""

    policies: tuple[PolicyObject, ...]
    effective: EffectiveSpec


class MemoizedInputs(NamedTuple):
    """The memoized values of a pool's last pass."""

    policies: Memo[AppliedPolicies] | None = None
    template: Memo[Pinned] | None = None
    limits: Memo[LimitsUpdate | None] | None = None
    writes: Memo[tuple[ChildWrite, ...]] | None = None
    price: Memo[PoolPrice | None] | None = None


def applied_policies(
    memo: Memo[AppliedPolicies] | None,
    view: PoolView,
    observed: Observed,
    open_now: dict[str, Opening],
) -> Memo[AppliedPolicies]:
    """Return the policies that select the pool, and its effective spec."""
    pool = view.pool
    settings = view.children.get(("ConfigMap", child_name(pool)))
    key = (
        pool.spec, pool.status.unset_scaling_mode, pool.labels, view.namespace_labels,
        observed.policies, settings, open_now.copy(),
    )  # fmt: skip

    def compute() -> AppliedPolicies:
        return AppliedPolicies(
            matching(pool.labels, view.namespace_labels, observed.policies),
            effective(
                pool, view.namespace_labels, observed.policies, stored_defaults(view), open_now
            ),
        )

    return memoize(memo, key, compute)


def stored_limits(
    memo: Memo[LimitsUpdate | None] | None, view: PoolView
) -> Memo[LimitsUpdate | None]:
    """Return the limits in the pool's ConfigMap."""
    settings = view.children.get(("ConfigMap", child_name(view.pool)))
    return memoize(memo, (settings, view.pool.uid), lambda: limits.stored_limits(view))


def pinned_template(
    memo: Memo[Pinned] | None,
    view: PoolView,
    policies: tuple[PolicyObject, ...],
    config: DecideConfig,
) -> Memo[Pinned]:
    """Return the pod template in force."""
    pool = view.pool
    restarted = pool.annotations.get(names.ANNOTATION_RESTARTED_AT)
    workload = view.children.get(workload_key(pool))
    key = (pool.spec, restarted, workload, view.revisions, policies, config)
    return memoize(memo, key, lambda: pin(view, policies, config))


def price_of_pods(
    memo: Memo[PoolPrice | None] | None,
    view: PoolView,
    template: Pinned,
    policies: tuple[PolicyObject, ...],
) -> Memo[PoolPrice | None]:
    """Return the price of the pool's pods; None while no policy has prices."""
    key = (policies, template, view.revisions, view.pods, view.nodes)
    return memoize(memo, key, lambda: pool_price(view, template.template, policies))


def child_writes(
    memo: Memo[tuple[ChildWrite, ...]] | None,
    outcome: PoolOutcome,
    control_keys: Mapping[str, str],
) -> Memo[tuple[ChildWrite, ...]]:
    """Return every write that brings the pool's children to their desired state."""
    view = outcome.view
    key = (
        view.pool.spec,
        tuple(view.children.get(name) for name in child_names(view.pool)),
        view.revisions,
        tuple(pod.revision for pod in view.pods),
        outcome.pinned,
        outcome.count,
        outcome.limits,
        outcome.effective.policy_defaults,
        outcome.effective.service,
        (outcome.rollout.way, outcome.rollout.gave_up, outcome.rollout.updating),
        outcome.peers,
        (outcome.gateway.route, outcome.gateway.hold, outcome.gateway.writes),
        control_keys,
    )
    return memoize(memo, key, lambda: all_writes(outcome, control_keys))
