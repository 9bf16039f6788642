"""The scaling decision of one pool at one tick: the law's proposal, the modes, and what the status reports. Pure.

The modes apply to every law alike, because they are implemented only here and in `modes.py`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock_api.conditions import Condition
from penstock_api.pod_contract import LimitsUpdate
from penstock_api.types.batching import BatchingMode
from penstock_api.types.decision import LastDecision
from penstock_api.types.model import Task
from penstock_api.types.scaling import ScalingAlgorithm, ScalingMode
from penstock_operator.decide.actions import EventNote
from penstock_operator.decide.manifests.pod_template.environment import accelerator
from penstock_operator.decide.scaling import guard, modes
from penstock_operator.decide.scaling.batch_work import batch_step
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawPod, RequestSpread
from penstock_operator.decide.scaling.line_rows import LineRows
from penstock_operator.decide.scaling.reasons import ReplicasMove, ReplicasReason
from penstock_operator.decide.scaling.report import status
from penstock_operator.decide.scaling.report.conditions import (
    REPLICAS_IGNORED,
    count_event,
    ignored_event,
    metrics_condition,
    mode_event,
    scaling_condition,
)
from penstock_operator.decide.scaling.report.status import ReportedDecision
from penstock_operator.decide.scaling.signals.windows import newest_samples
from penstock_operator.decide.scaling.utilization_band.law import UtilizationBand
from penstock_operator.decide.scaling.zero import (
    Activity,
    is_routed,
    may_be_at_zero,
    never_at_zero,
    observe_activity,
    zero_step,
)
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.measured import measured
from penstock_operator.observed import PodObject, PodSample, PoolView
from penstock_operator.variants import batch_replicas

LAWS: dict[ScalingAlgorithm, Law[Any]] = {
    ScalingAlgorithm.UTILIZATION_BAND: UtilizationBand(),
    ScalingAlgorithm.CAPACITY_AT_OBJECTIVE: CapacityAtObjective(),
}

FORGET_SECONDS = 90.0
"""Three ticks of an idle pool: after a longer gap, such as a lost leadership, the state starts again from the live count."""


class ScalingOutcome(NamedTuple):
    """The cap and the count to apply now, and what to report."""

    cap: int
    """The batch cap to publish, in rows."""
    recommended_cap: int
    """The cap that the law recommends; differs from `cap` in batching modes Recommend and Fixed."""
    replicas: int
    """The count for the Deployment."""
    desired_replicas: int
    """The value of `status.desiredReplicas`: the law's count in Auto and Recommend, the frozen count in Hold,
    `spec.replicas` in Manual."""
    acted: str
    """Acted | Recommended | Held; Steady if the law changed nothing."""
    decision: Decision
    conditions: tuple[Condition, ...]
    """Scaling and MetricsAvailable, without times."""
    events: tuple[EventNote, ...]
    reported: ReportedDecision
    last_decision: LastDecision | None
    """The last decision that changed, or would have changed, the cap or the count; None before the first."""
    bound_by: str = ""
    """GpuBudget | Cluster if fewer replicas are granted than requested; else empty."""
    failure: LawFailure | None = None
    """The law's failure at this tick."""


class Quota(NamedTuple):
    """The replicas granted to a pool where several pools share devices."""

    replicas: int
    bound_by: str = ""
    """GpuBudget | Cluster; empty if the request is granted in full."""
    why: str = ""
    """A clause: which budget, and its size."""


class SpecReplicas(NamedTuple):
    """Edits of `spec.replicas`, which mode Auto ignores."""

    accepted: int | None
    """The count at the start of mode Auto; None after a restart, when it is not known."""
    ignored: int | None = None
    """The count written since then; None if it is the accepted one."""


class ScalingState(NamedTuple):
    """State of one pool between ticks, including its law's state."""

    time: float
    algorithm: ScalingAlgorithm
    law: Any
    mode: ScalingMode
    replicas: int
    """The count last applied: a Deployment scaled by another writer is drift."""
    base: int
    """The law's input count at the next tick (`modes.next_base`)."""
    spec_replicas: SpecReplicas
    last: LastDecision | None
    limited: bool = False
    """Whether fewer replicas were granted than requested."""
    failures: int = 0
    """Consecutive failures of the law, up to the last step."""
    activity: Activity | None = None
    """Signs of requests, by which a pool goes to zero; None if it may not."""
    line_rows: LineRows = LineRows()


class Proposal(NamedTuple):
    """One step of a pool's law, before devices are divided among pools."""

    effective: EffectiveSpec
    view: PoolView
    published: LimitsUpdate | None
    before: ScalingState | None
    law: Any
    observed: LawInput
    decision: Decision
    base: int
    """The law's input count."""
    failure: LawFailure | None = None
    activity: Activity | None = None
    line_rows: LineRows = LineRows()

    @property
    def requested(self) -> int:
        """Return the replicas that the pool's mode requests for the Deployment."""
        return modes.granted_replicas(self.effective, self.decision, self.base)

    @property
    def lasting(self) -> int:
        """Return the requested replicas, without those of a variant that only batch work needs."""
        pool = self.view.pool
        batch = 0 if pool.variant_of is None else batch_replicas(pool.annotations)
        return max(self.requested - batch, 0)

    @property
    def need(self) -> float:
        """Return the replicas that demand alone needs, as a fraction, at most the requested count."""
        if self.effective.scaling_mode is not ScalingMode.AUTO or not self.decision.demands:
            return float(self.lasting)
        return min(max(demand.replicas for demand in self.decision.demands), float(self.requested))


def propose(
    effective: EffectiveSpec,
    view: PoolView,
    published: LimitsUpdate | None,
    state: object | None,
    now: float,
) -> Proposal:
    """Return the step of the pool's law at this tick.

    `published` are the limits in force, None before the first; `state` is what `conclude`
    returned at the last tick, None for a new pool (also after the operator restarts).
    """
    before = (
        state if isinstance(state, ScalingState) and _continues(state, effective, now) else None
    )
    count = modes.first_replicas(effective, view) if before is None else before.base
    base = modes.base_replicas(effective, count)
    law = LAWS[effective.algorithm]
    limited = before is not None and before.limited
    observed = law_input(effective, view, published, base, limited=limited)

    def begin() -> Any:
        known = None if before is None else before.law
        return guard.initial_state(law, view, now) if known is None else known

    line_rows = LineRows() if before is None else before.line_rows
    if view.pool.spec.model.task is not Task.TEXT_GENERATION:  # there a line is an answer
        line_rows = line_rows.after(newest_samples(view.signals), view.batches)
    step = guard.guarded_step(law, begin, observed, now, 0 if before is None else before.failures)
    if effective.scaling_mode is ScalingMode.MANUAL:
        why = f"spec.replicas is {base}"
        decision = step.decision.with_count(ReplicasMove(base, ReplicasReason.MANUAL, why))
    else:
        batches = line_rows.measured(view.batches)
        decision = batch_step(step.decision, effective.batch_work, effective.law, batches, now)
    activity = None
    if may_be_at_zero(effective):
        known, gateway = None if before is None else before.activity, view.gateway
        activity = observe_activity(known, observed, gateway.held_requests, now)
        if is_routed(view):
            idle = effective.idle_seconds
            decision = zero_step(decision, idle, observed, gateway, activity)
    return Proposal(
        effective,
        view,
        published,
        before,
        step.state,
        observed,
        decision,
        base,
        step.failure,
        activity,
        line_rows,
    )


def conclude(
    proposal: Proposal, quota: Quota | None, now: float
) -> tuple[ScalingState, ScalingOutcome]:
    """Return the next state and the decision, within the pool's quota."""
    effective, view, before = proposal.effective, proposal.view, proposal.before
    decision, requested = proposal.decision, proposal.requested
    granted = requested if quota is None else min(requested, quota.replicas)
    acted = _acted(effective, decision, proposal.observed, granted)
    last = view.pool.status.last_decision if before is None else before.last
    bound = quota.bound_by if quota is not None and granted < requested else ""
    devices = accelerator(view.pool).count * view.pool.spec.pods_per_replica
    reported = ReportedDecision(effective, decision, acted, devices, bound)
    if acted != "Steady":
        last = status.last_decision(last, reported, now)
    after = ScalingState(
        time=now,
        algorithm=effective.algorithm,
        law=proposal.law,
        mode=effective.scaling_mode,
        replicas=granted,
        base=modes.next_base(effective, decision, requested, granted),
        spec_replicas=_accepted(effective, view, before),
        last=last,
        limited=granted < requested,
        failures=0 if proposal.failure is None else proposal.failure.times,
        activity=proposal.activity,
        line_rows=proposal.line_rows,
    )
    return after, ScalingOutcome(
        cap=modes.granted_cap(effective, decision, proposal.published),
        recommended_cap=decision.cap,
        replicas=granted,
        desired_replicas=modes.desired_replicas(effective, decision, proposal.base),
        acted=acted,
        decision=decision,
        conditions=_conditions(proposal, after),
        events=_events(proposal, after, quota),
        reported=reported,
        last_decision=last,
        bound_by=bound,
        failure=proposal.failure,
    )


def law_input(
    effective: EffectiveSpec,
    view: PoolView,
    published: LimitsUpdate | None,
    replicas: int,
    *,
    limited: bool = False,
) -> LawInput:
    """Return the law's input for a pool; `limited`: it was granted fewer replicas than requested."""
    newest, routed = newest_samples(view.signals), is_routed(view)
    return LawInput(
        # no law decides between none and one: `zero.py` does
        settings=never_at_zero(effective).law,
        signals=view.signals,
        pods=tuple(_pod(pod, view, newest.get(pod.uid), published) for pod in view.pods),
        replicas=replicas,
        cap=None if published is None else published.max_batch_size,
        limited=limited,
        offered=view.gateway.offered if routed else None,
        spread=RequestSpread.LEAST_REQUEST if routed else RequestSpread.BY_CONNECTION,
        fixed_cap=modes.fixed_cap(effective, published),
    )


def checkpoint_data(state: object) -> Mapping[str, Any] | None:
    """Return the part of a pool's state that its checkpoint stores; None if there is nothing to store."""
    return guard.checkpoint_data(state.law) if isinstance(state, ScalingState) else None


def _pod(
    pod: PodObject, view: PoolView, sample: PodSample | None, published: LimitsUpdate | None
) -> LawPod:
    answer = view.acknowledgements.get(pod.uid)
    scraped = None if sample is None else sample.limits_generation
    answered = None if answer is None else answer.generation
    bound = None if answer is None else answer.effective_max
    if sample is not None and sample.batch_cap_bound is not None and sample.batch_cap_bound >= 1:
        bound = int(sample.batch_cap_bound)
    return LawPod(
        uid=pod.uid,
        ready=pod.ready,
        terminating=pod.terminating,
        acknowledged=published is None or published.generation in {scraped, answered},
        cap_bound=bound,
        created=pod.created,
        cap=None
        if sample is None or (cap := measured(sample.batch_cap)) is None
        else max(int(cap), 1),
        scheduled_since=pod.scheduled_since,
        ready_since=pod.ready_since,
        revision=pod.revision,
        failing=pod.problem is not None or pod.restarts > 0,
    )


def _continues(state: ScalingState, effective: EffectiveSpec, now: float) -> bool:
    return state.algorithm == effective.algorithm and 0 <= now - state.time <= FORGET_SECONDS


def _acted(effective: EffectiveSpec, decision: Decision, observed: LawInput, granted: int) -> str:
    """Return the effect of the decision: Acted if the cap or the count changes, Held if a quota or mode Hold prevents it."""
    changes_cap = observed.cap is not None and decision.cap != observed.cap
    changes_replicas = decision.replicas != observed.replicas
    if changes_cap and effective.batching_mode is BatchingMode.AUTO:
        return "Acted"
    if changes_replicas and effective.scaling_mode is ScalingMode.AUTO:
        return "Acted" if granted != observed.replicas else "Held"
    if changes_replicas and effective.scaling_mode is ScalingMode.HOLD:
        return "Held"
    return "Recommended" if changes_cap or changes_replicas else "Steady"


def _accepted(
    effective: EffectiveSpec, view: PoolView, before: ScalingState | None
) -> SpecReplicas:
    """Return the `spec.replicas` that mode Auto accepted, and another one that it ignores now.

    If the accepted count is not known any more, an edit of the ignored count counts as a revert.
    """
    count, auto = view.pool.spec.replicas, effective.scaling_mode is ScalingMode.AUTO
    if before is None:
        conditions = view.pool.status.conditions or ()
        was_ignored = any(
            condition.type == "Scaling" and condition.reason == REPLICAS_IGNORED
            for condition in conditions
        )
        return SpecReplicas(None, count) if was_ignored and auto else SpecReplicas(count)
    if not auto or before.mode is not ScalingMode.AUTO:
        return SpecReplicas(count)
    known = before.spec_replicas
    if count == known.ignored:
        return known
    if known.accepted in (None, count):
        return SpecReplicas(count)
    return SpecReplicas(known.accepted, count)


def _conditions(proposal: Proposal, after: ScalingState) -> tuple[Condition, ...]:
    view, decision = proposal.view, proposal.decision
    ready = sum(pod.ready and not pod.terminating for pod in view.pods)
    blind = ready > 0 and not decision.metrics_available
    ignored = after.spec_replicas.ignored is not None
    return (
        scaling_condition(
            proposal.effective, ignored=ignored, blind=blind, failure=proposal.failure
        ),
        metrics_condition(decision, view.signals, ready, after.replicas),
    )


def _events(proposal: Proposal, after: ScalingState, quota: Quota | None) -> tuple[EventNote, ...]:
    view, before = proposal.view, proposal.before
    known = modes.live_replicas(view) if before is None else before.replicas
    why = _why(proposal.effective, proposal.decision)
    if after.limited and quota is not None:
        why = f"{quota.why}; {proposal.requested} requested: {why}"
    notes = [] if known is None else [count_event(known, after.replicas, why)]
    if before is not None and before.mode is not after.mode:
        notes.append(mode_event(before.mode, after.mode))
    ignored = after.spec_replicas.ignored
    if ignored is not None and before is not None and before.spec_replicas.ignored != ignored:
        notes.append(ignored_event(ignored))
    return tuple(note for note in notes if note is not None)


def _why(effective: EffectiveSpec, decision: Decision) -> str:
    if effective.scaling_mode is ScalingMode.AUTO:
        return decision.replicas_why
    if effective.scaling_mode is ScalingMode.HOLD:
        if effective.replicas_bound is None:
            return "scaling.mode is Hold"
        return f"a policy allows at most {effective.replicas_bound}"
    return f"spec.replicas is {effective.replicas}"
