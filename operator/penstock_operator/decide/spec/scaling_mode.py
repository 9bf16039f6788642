"""The scaling mode in force, and the meaning of an unset `scaling.mode`. Pure.

1. `spec.scaling.mode` applies where it is set.
2. Unset, it means what `status.unsetScalingMode` says: `ByTarget` is Auto if the pool's own spec sets an objective or
   `scaling.maxReplicas`, else Manual; `Manual` is Manual whatever the spec. A policy's objective never switches a mode.
3. The meaning is decided at the first pass over a pool and never changes. A pool that an earlier release served means
   Manual: its status has a selector, or it has a Deployment, settings or revision, but no meaning is stored. So does a
   pool under a CRD that cannot store the meaning, and one with a meaning that this operator does not know.
4. `ByTarget` is stored before the pool's first child is written (`act/executor.py`), so that a crash in between does not
   make a new pool look like an earlier one.

The transition rule of the CRD (`penstock_api.types.pool.LEAVING_AUTO_RULE`) resolves the mode in the same way.
"""

from dataclasses import replace

from penstock_api.types.pool import PoolSpec
from penstock_api.types.scaling import ScalingMode, UnsetScalingMode
from penstock_operator.observed import PoolObject, PoolView
from penstock_operator.schema_skew import SchemaSkew

STATUS_FIELD = "status.unsetScalingMode"


def scaling_mode(pool: PoolObject) -> ScalingMode:
    """Return the scaling mode in force."""
    if pool.spec.scaling is not None and pool.spec.scaling.mode is not None:
        return pool.spec.scaling.mode
    by_target = pool.status.unset_scaling_mode == UnsetScalingMode.BY_TARGET
    return ScalingMode.AUTO if by_target and has_target(pool.spec) else ScalingMode.MANUAL


def has_target(spec: PoolSpec) -> bool:
    """Return whether the spec sets an objective or a maximum of replicas."""
    return bool(spec.objectives) or (
        spec.scaling is not None and spec.scaling.max_replicas is not None
    )


def with_unset_mode(view: PoolView, skew: SchemaSkew) -> PoolView:
    """Return the view with the meaning of an unset mode in its status, decided now if none is stored."""
    if view.pool.status.unset_scaling_mode is not None:
        return view
    status = view.pool.status.model_copy(update={"unset_scaling_mode": _meaning(view, skew).value})
    return replace(view, pool=replace(view.pool, status=status))


def _meaning(view: PoolView, skew: SchemaSkew) -> UnsetScalingMode:
    own = [child for child in view.children.values() if child.controller_uid == view.pool.uid]
    served = view.pool.status.selector is not None or bool(own) or bool(view.revisions)
    stored = STATUS_FIELD not in skew.lacking
    return UnsetScalingMode.MANUAL if served or not stored else UnsetScalingMode.BY_TARGET
