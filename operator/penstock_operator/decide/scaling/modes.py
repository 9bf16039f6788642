"""The scaling mode and the batching mode (docs/design/design.md#modes), and the count that a law starts from. Pure.

`scaling.mode`: Auto applies the law's count; Recommend and Manual leave `spec.replicas`; Hold freezes the count.
`batching.mode`: Auto applies the law's cap; Recommend freezes the cap; Fixed sets size.max. A policy's bound on replicas and
the range of batch sizes apply at once in every mode; minReplicas and maxReplicas bound what the law decides.
"""

from penstock_api.conditions import ConditionStatus
from penstock_api.pod_contract import LimitsUpdate
from penstock_api.types.batching import BatchingMode
from penstock_api.types.scaling import ScalingAlgorithm, ScalingMode
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.manifests.workload import own_workload
from penstock_operator.decide.quota_ledger import BUDGET_LIMITED
from penstock_operator.decide.scaling.law import Decision
from penstock_operator.decide.scaling.reasons import ReplicasReason
from penstock_operator.decide.scaling.report.conditions import HELD
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap
from penstock_operator.decide.scaling.utilization_band.replicas import clamp_replicas
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PoolView


def live_replicas(view: PoolView) -> int | None:
    """Return the count of the pool's own workload; None if there is none."""
    child = own_workload(view)
    if child is None:
        return None
    replicas = (child.manifest.get("spec") or {}).get("replicas")
    return replicas if isinstance(replicas, int) and replicas >= 0 else None


def first_replicas(effective: EffectiveSpec, view: PoolView) -> int:
    """Return the initial count of a new pool: the live count, never the minimum.

    Without a workload (not created yet, or deleted while the operator was down) it is `status.desiredReplicas`, else
    `spec.replicas` within the bounds. In mode Hold it is the frozen count if a budget kept the live count below it.
    """
    live = live_replicas(view)
    if live is not None:
        frozen = effective.scaling_mode is ScalingMode.HOLD and _frozen_short(view.pool.status)
        return max(live, view.pool.status.desired_replicas or 0) if frozen else live
    if view.pool.status.desired_replicas is not None and scales(effective.scaling_mode):
        return view.pool.status.desired_replicas
    if scales(effective.scaling_mode):
        return clamp_replicas(effective.replicas, effective.law)
    return effective.replicas


def _frozen_short(status: PoolStatus) -> bool:
    """Return whether the status reports mode Hold and a budget that grants less than the frozen count."""
    reported = {
        (condition.type, condition.status, condition.reason)
        for condition in status.conditions or ()
    }
    on_hold = ("Scaling", ConditionStatus.FALSE, HELD) in reported
    return on_hold and any(
        entry[:2] == (BUDGET_LIMITED, ConditionStatus.TRUE) for entry in reported
    )


def scales(mode: ScalingMode) -> bool:
    """Return whether the operator sets the count, and not `spec.replicas`."""
    return mode in {ScalingMode.AUTO, ScalingMode.HOLD}


def base_replicas(effective: EffectiveSpec, before: int) -> int:
    """Return the law's input count; `before` is the value of `next_base` at the last tick."""
    if not scales(effective.scaling_mode):
        return effective.replicas
    if effective.replicas_bound is None:
        return before
    return min(before, effective.replicas_bound)


def next_base(effective: EffectiveSpec, decision: Decision, requested: int, granted: int) -> int:
    """Return the law's input count at the next tick: the `granted` count.

    In mode Hold, and while the law has no signals, it is the `requested` count: a shortage of devices does not lower it.
    """
    if effective.scaling_mode is ScalingMode.HOLD:
        return requested
    return (
        requested
        if effective.scaling_mode is ScalingMode.AUTO and _blind(effective, decision)
        else granted
    )


def _blind(effective: EffectiveSpec, decision: Decision) -> bool:
    """Return whether the law only holds the count: it has no signals, no known capacity, or it failed."""
    unmeasured = (
        effective.algorithm is ScalingAlgorithm.CAPACITY_AT_OBJECTIVE and not decision.demands
    )
    failed = decision.replicas_term == ReplicasReason.LAW_FAILED
    return not decision.metrics_available or unmeasured or failed


def granted_replicas(effective: EffectiveSpec, decision: Decision, base: int) -> int:
    """Return the workload's count."""
    return decision.replicas if effective.scaling_mode is ScalingMode.AUTO else base


def desired_replicas(effective: EffectiveSpec, decision: Decision, base: int) -> int:
    """Return `status.desiredReplicas`: the law's count in Recommend, the actual count in Hold and Manual."""
    recommends = effective.scaling_mode is ScalingMode.RECOMMEND
    return decision.replicas if recommends else granted_replicas(effective, decision, base)


def fixed_cap(effective: EffectiveSpec, published: LimitsUpdate | None) -> int | None:
    """Return the cap that the batching mode publishes, whatever the law plans; None: the law's."""
    if effective.batching_mode is BatchingMode.FIXED:
        return effective.law.size_max
    if effective.batching_mode is BatchingMode.AUTO or published is None:
        return None
    return clamp_cap(published.max_batch_size, effective.law)


def granted_cap(
    effective: EffectiveSpec, decision: Decision, published: LimitsUpdate | None
) -> int:
    """Return the cap to publish, always inside the range of batch sizes."""
    fixed = fixed_cap(effective, published)
    return clamp_cap(decision.cap, effective.law) if fixed is None else fixed
