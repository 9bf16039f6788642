"""What stands between edits: a pool's effective spec, its template and its children follow from what people wrote.

Worked out once for each edit and remembered (`memoized.py`); the keys are everything that the values follow from. Pure.

What need not be worked out again: a value beside everything that it followed from. Pure.

Five thousand pools are decided on every few seconds, and hardly any of them was edited since: their manifests and
effective specs are those of the pass before. Keys are compared by identity first, so that a store's unchanged record costs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock_api import names
from penstock_api.limits import LimitsUpdate
from penstock_operator.decide import limits
from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.children import child_names, family_writes, held_defaults
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.metadata import child_name
from penstock_operator.decide.manifests.pinned_template import Pinned, pin
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.spec.effective import EffectiveSpec, effective
from penstock_operator.decide.spec.schedules import Opening
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.observed import Observed, PolicyObject, PoolView

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Memo(Generic[Value]):
    """A value, and what it followed from."""

    key: tuple[object, ...]
    value: Value


def recalled(
    held: Memo[Value] | None, key: tuple[object, ...], make: Callable[[], Value]
) -> Memo[Value]:
    """Return `held` if it followed from the very same, else what `make` makes of it."""
    if held is not None and same(held.key, key):
        return held
    return Memo(key, make())


def same(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Tell whether two keys are equal, part by part; parts may be tuples of parts."""
    return len(before) == len(after) and all(map(_equal, before, after))


def _equal(one: object, other: object) -> bool:
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return same(one, other)
    return one == other


@dataclass(frozen=True, slots=True)
class AppliedPolicies:
    """Whose word counts for a pool, and what it comes to."""

    policies: tuple[PolicyObject, ...]
    effective: EffectiveSpec


@dataclass(frozen=True, slots=True)
class MemoizedInputs:
    """What stood at a pool's last pass."""

    ruled: Memo[AppliedPolicies] | None = None
    pinned: Memo[Pinned] | None = None
    stored: Memo[LimitsUpdate | None] | None = None
    writes: Memo[tuple[ChildWrite, ...]] | None = None


def ruled(
    held: Memo[AppliedPolicies] | None,
    view: PoolView,
    observed: Observed,
    open_now: dict[str, Opening],
) -> Memo[AppliedPolicies]:
    """Return the effective spec, and the policies that select the pool."""
    pool = view.pool
    settings = view.children.get(("ConfigMap", child_name(pool)))
    key = (
        pool.spec, pool.labels, view.namespace_labels, observed.policies, settings, open_now.copy()
    )  # fmt: skip

    def make() -> AppliedPolicies:
        return AppliedPolicies(
            matching(pool.labels, view.namespace_labels, observed.policies),
            effective(
                pool, view.namespace_labels, observed.policies, held_defaults(view), open_now
            ),
        )

    return recalled(held, key, make)


def stored(held: Memo[LimitsUpdate | None] | None, view: PoolView) -> Memo[LimitsUpdate | None]:
    """Return the limits that the pool's ConfigMap tells."""
    settings = view.children.get(("ConfigMap", child_name(view.pool)))
    return recalled(held, (settings, view.pool.uid), lambda: limits.stored(view))


def pinned(
    held: Memo[Pinned] | None,
    view: PoolView,
    policies: tuple[PolicyObject, ...],
    config: DecideConfig,
) -> Memo[Pinned]:
    """Return the template in force."""
    pool = view.pool
    restarted = pool.annotations.get(names.ANNOTATION_RESTARTED_AT)
    deployed = view.children.get(("Deployment", child_name(pool)))
    key = (pool.spec, restarted, deployed, view.revisions, policies, config)
    return recalled(held, key, lambda: pin(view, policies, config))


def writes(
    held: Memo[tuple[ChildWrite, ...]] | None, found: PoolOutcome, control_keys: Mapping[str, str]
) -> Memo[tuple[ChildWrite, ...]]:
    """Return every write that makes the pool's children what is wanted."""
    view = found.view
    key = (
        view.pool.spec,
        tuple(view.children.get(one) for one in child_names(view.pool)),
        view.revisions,
        tuple(pod.revision for pod in view.pods),
        found.pinned,
        found.count,
        found.limits,
        found.effective.policy_defaults,
        (found.rollout.way, found.rollout.gave_up),
        found.peers,
        control_keys,
    )
    return recalled(held, key, lambda: family_writes(found, control_keys))
