"""From what a law wants to what is done and said about it, for one pool and one tick. Pure.

Every law obeys the modes alike, because they are applied here and in `modes.py`, nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock_api.conditions import Condition
from penstock_api.limits import LimitsUpdate
from penstock_api.types.decision import LastDecision, ScalingStatus
from penstock_api.types.live import BatchingMode, ScalingAlgorithm, ScalingMode
from penstock_operator.decide.actions import EventNote
from penstock_operator.decide.manifests.environment import accelerator
from penstock_operator.decide.scaling import law_memory, modes
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.failure import LawFailure
from penstock_operator.decide.scaling.guard import guarded_step
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawPod
from penstock_operator.decide.scaling.reasons import ReplicasReason
from penstock_operator.decide.scaling.report import conditions as report
from penstock_operator.decide.scaling.report import status
from penstock_operator.decide.scaling.report.status import ReportedDecision
from penstock_operator.decide.scaling.utilization_band.law import UtilizationBand
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PodObject, PodSample, PoolView, measured

LAWS: dict[ScalingAlgorithm, Law[Any]] = {
    ScalingAlgorithm.UTILIZATION_BAND: UtilizationBand(),
    ScalingAlgorithm.CAPACITY_AT_OBJECTIVE: CapacityAtObjective(),
}

FORGET_SECONDS = 90.0
"""Three ticks of an idle pool unseen (leadership lost and found): begin again from what is live."""


@dataclass(frozen=True, slots=True)
class ScalingOutcome:
    """What to do with both valves of one pool now, and what to say about it."""

    cap: int
    """The batch cap to publish, in rows."""
    recommended_cap: int
    """What the law wants; differs from `cap` in batching modes Recommend and Fixed."""
    replicas: int
    """For the Deployment."""
    desired_replicas: int
    """For `status.desiredReplicas`: the law's wish in Auto and Recommend, the frozen count in Hold,
    `spec.replicas` in Manual."""
    acted: str
    """Acted | Recommended | Held; Steady where nothing was wanted."""
    decision: Decision
    conditions: tuple[Condition, ...]
    """Scaling and MetricsAvailable, without times."""
    events: tuple[EventNote, ...]
    scaling_status: ScalingStatus
    last_decision: LastDecision | None
    """The last decision that moved, or wanted to move, a valve; None before the first."""
    bound_by: str = ""
    """GpuBudget | Cluster where fewer replicas are granted than wanted; else empty."""
    failure: LawFailure | None = None
    """The law's failure at this tick."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What may be had of the replicas that a pool wants, where others want the same devices."""

    replicas: int
    bound_by: str = ""
    """GpuBudget | Cluster; empty where all that is wanted is granted."""
    why: str = ""
    """Half a sentence: whose budget, and how much of it."""


@dataclass(frozen=True, slots=True)
class SpecReplicas:
    """What became of `spec.replicas`, which mode Auto does not follow."""

    accepted: int | None
    """The count that Auto began with; None: an operator before this one knew it."""
    ignored: int | None = None
    """The count that was written since; None: the accepted one stands."""


@dataclass(frozen=True, slots=True)
class ScalingState:
    """What is remembered of one pool between ticks, beside its law's own state."""

    time: float
    algorithm: ScalingAlgorithm
    law: Any
    mode: ScalingMode
    replicas: int
    """The count last acted on: a Deployment scaled by another hand is drift, not a new wish."""
    base: int
    """The count that the law is asked about next (`modes.next_base`)."""
    spec_replicas: SpecReplicas
    last: LastDecision | None
    limited: bool = False
    """Whether fewer replicas were granted than wanted."""
    failures: int = 0
    """Steps of the law in a row that raised, up to the last one."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One step of a pool's law, before the needs of other pools are weighed against it."""

    effective: EffectiveSpec
    view: PoolView
    published: LimitsUpdate | None
    before: ScalingState | None
    law: Any
    observed: LawInput
    decision: Decision
    base: int
    """The count that the law was asked about."""
    failure: LawFailure | None = None

    @property
    def requested(self) -> int:
        """Return the replicas that the pool's mode asks the Deployment for."""
        return modes.granted_replicas(self.effective, self.decision, self.base)

    @property
    def need(self) -> float:
        """Return the replicas that demand alone asks for, in parts of one, at most what is wanted."""
        if self.effective.scaling_mode is not ScalingMode.AUTO or not self.decision.demands:
            return float(self.requested)
        return min(max(one.replicas for one in self.decision.demands), float(self.requested))


def decide_scaling(
    effective: EffectiveSpec,
    view: PoolView,
    published: LimitsUpdate | None,
    state: object | None,
    now: float,
) -> tuple[object, ScalingOutcome]:
    """Return the next state of the pool's law and what to do with both valves, with devices for all."""
    return conclude(propose(effective, view, published, state, now), None, now)


def propose(
    effective: EffectiveSpec,
    view: PoolView,
    published: LimitsUpdate | None,
    state: object | None,
    now: float,
) -> Proposal:
    """Return what the pool's law makes of this tick.

    `published` are the limits in force, None before the first; `state` is what `conclude`
    returned at the last tick, None for a pool just met (also after the operator restarts).
    """
    before = (
        state if isinstance(state, ScalingState) and _continues(state, effective, now) else None
    )
    count = modes.first_replicas(effective, view) if before is None else before.base
    base = modes.base_replicas(effective, count)
    law = LAWS[effective.algorithm]
    limited = before is not None and before.limited
    seen = replace(law_input(effective, view, published, base), limited=limited)

    def begun() -> Any:
        known = None if before is None else before.law
        return law_memory.initial_state(law, view, seen, now) if known is None else known

    step = guarded_step(law, begun, seen, now, 0 if before is None else before.failures)
    manual = effective.scaling_mode is ScalingMode.MANUAL
    decision = _manual(step.decision, base) if manual else step.decision
    return Proposal(
        effective, view, published, before, step.state, seen, decision, base, step.failure
    )


def conclude(
    proposal: Proposal, allowance: Quota | None, now: float
) -> tuple[ScalingState, ScalingOutcome]:
    """Return the next state and what to do with both valves, within what the pool may have."""
    effective, view, before = proposal.effective, proposal.view, proposal.before
    decision, wanted = proposal.decision, proposal.requested
    granted = wanted if allowance is None else min(wanted, allowance.replicas)
    acted = _acted(effective, decision, proposal.observed, granted)
    last = view.pool.status.last_decision if before is None else before.last
    bound = allowance.bound_by if allowance is not None and granted < wanted else ""
    told = ReportedDecision(effective, decision, acted, accelerator(view.pool).count, bound)
    if acted != "Steady":
        last = status.last_decision(last, told, now)
    after = ScalingState(
        time=now,
        algorithm=effective.algorithm,
        law=proposal.law,
        mode=effective.scaling_mode,
        replicas=granted,
        base=modes.next_base(effective, decision, wanted, granted),
        spec_replicas=_accepted(effective, view, before),
        last=last,
        limited=granted < wanted,
        failures=0 if proposal.failure is None else proposal.failure.times,
    )
    return after, ScalingOutcome(
        cap=modes.granted_cap(effective, decision, proposal.published),
        recommended_cap=decision.cap,
        replicas=granted,
        desired_replicas=modes.desired_replicas(effective, decision, proposal.base),
        acted=acted,
        decision=decision,
        conditions=_conditions(proposal, after),
        events=_events(proposal, after, allowance),
        scaling_status=status.scaling_status(told, view.signals),
        last_decision=last,
        bound_by=bound,
        failure=proposal.failure,
    )


def law_input(
    effective: EffectiveSpec, view: PoolView, published: LimitsUpdate | None, replicas: int
) -> LawInput:
    """Return what a law reads of a pool."""
    newest: dict[str, PodSample] = {}
    for sample in sorted(view.signals.samples, key=lambda one: one.time):
        newest[sample.uid] = sample
    return LawInput(
        settings=effective.law,
        signals=view.signals,
        pods=tuple(_pod(pod, view, newest.get(pod.uid), published) for pod in view.pods),
        replicas=replicas,
        cap=None if published is None else published.max_batch_size,
    )


def checkpoint_data(state: object) -> Mapping[str, Any] | None:
    """Return what of a pool's state is worth keeping through a restart; None where nothing is."""
    return law_memory.checkpoint_data(state.law) if isinstance(state, ScalingState) else None


def _pod(
    pod: PodObject, view: PoolView, sample: PodSample | None, published: LimitsUpdate | None
) -> LawPod:
    answer = view.acknowledgements.get(pod.uid)
    said = None if sample is None else sample.limits_generation
    heard = None if answer is None else answer.generation
    bound = None if answer is None else answer.effective_max
    if sample is not None and sample.batch_cap_bound is not None and sample.batch_cap_bound >= 1:
        bound = int(sample.batch_cap_bound)
    return LawPod(
        uid=pod.uid,
        ready=pod.ready,
        terminating=pod.terminating,
        acknowledged=published is None or published.generation in {said, heard},
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


def _manual(decision: Decision, replicas: int) -> Decision:
    """In mode Manual nobody asks the law about the count."""
    why = f"spec.replicas is {replicas}"
    return replace(
        decision,
        replicas=replicas,
        replicas_term=ReplicasReason.MANUAL,
        replicas_why=why,
        message=f"cap {decision.cap}: {decision.cap_why}; replicas {replicas}: {why}",
        hold_until=None,
    )


def _acted(effective: EffectiveSpec, decision: Decision, seen: LawInput, granted: int) -> str:
    """Return what became of the decision: Acted if any valve moved by it, Held if others' needs forbid."""
    wants_cap = seen.cap is not None and decision.cap != seen.cap
    wants_replicas = decision.replicas != seen.replicas
    if wants_cap and effective.batching_mode is BatchingMode.AUTO:
        return "Acted"
    if wants_replicas and effective.scaling_mode is ScalingMode.AUTO:
        return "Acted" if granted != seen.replicas else "Held"
    if wants_replicas and effective.scaling_mode is ScalingMode.HOLD:
        return "Held"
    return "Recommended" if wants_cap or wants_replicas else "Steady"


def _accepted(
    effective: EffectiveSpec, view: PoolView, before: ScalingState | None
) -> SpecReplicas:
    """Return which `spec.replicas` mode Auto began with, and which other one it ignores now.

    Where the accepted count is not known any more, an edit of the ignored one is taken for its undoing.
    """
    wanted, auto = view.pool.spec.replicas, effective.scaling_mode is ScalingMode.AUTO
    if before is None:
        held = view.pool.status.conditions or ()
        told = any(one.type == "Scaling" and one.reason == report.REPLICAS_IGNORED for one in held)
        return SpecReplicas(None, wanted) if told and auto else SpecReplicas(wanted)
    if not auto or before.mode is not ScalingMode.AUTO:
        return SpecReplicas(wanted)
    known = before.spec_replicas
    if wanted == known.ignored:
        return known
    if known.accepted in (None, wanted):
        return SpecReplicas(wanted)
    return SpecReplicas(known.accepted, wanted)


def _conditions(proposal: Proposal, after: ScalingState) -> tuple[Condition, ...]:
    view, decision = proposal.view, proposal.decision
    ready = sum(pod.ready and not pod.terminating for pod in view.pods)
    blind = ready > 0 and not decision.metrics_available
    ignored = after.spec_replicas.ignored is not None
    return (
        report.scaling_condition(
            proposal.effective, ignored=ignored, blind=blind, failure=proposal.failure
        ),
        report.metrics_condition(decision, view.signals, ready, after.replicas),
    )


def _events(
    proposal: Proposal, after: ScalingState, allowance: Quota | None
) -> tuple[EventNote, ...]:
    view, before = proposal.view, proposal.before
    known = modes.live_replicas(view) if before is None else before.replicas
    why = _why(proposal.effective, proposal.decision)
    if after.limited and allowance is not None:
        why = f"{allowance.why}; {proposal.requested} wanted: {why}"
    notes = [] if known is None else [report.count_event(known, after.replicas, why)]
    if before is not None and before.mode is not after.mode:
        notes.append(report.mode_event(before.mode, after.mode))
    ignored = after.spec_replicas.ignored
    if ignored is not None and before is not None and before.spec_replicas.ignored != ignored:
        notes.append(report.ignored_event(ignored))
    return tuple(note for note in notes if note is not None)


def _why(effective: EffectiveSpec, decision: Decision) -> str:
    if effective.scaling_mode is ScalingMode.AUTO:
        return decision.replicas_why
    if effective.scaling_mode is ScalingMode.HOLD:
        if effective.replicas_bound is None:
            return "scaling.mode is Hold"
        return f"a policy allows at most {effective.replicas_bound}"
    return f"spec.replicas is {effective.replicas}"
