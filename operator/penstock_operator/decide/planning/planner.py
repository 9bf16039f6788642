"""The planner of a pass: turns the observed state of all due pools into one plan. Pure.

Each pool is drafted separately (`pool_draft.py`): effective spec, law step, pinned template, quota requests. Then all
requests together divide the budgets (`budgets/`). Then each pool is finished: count -> children -> limits -> pushes
-> conditions -> status -> Events. A pool whose planning raises fails alone.

A pool's next pass is at the fast tick while it is busy or not yet in its desired state, else at the slow tick.
"""

from collections.abc import Mapping
from dataclasses import replace

from penstock_api.types.status import CandidateDecision
from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.budgets.requests import quota
from penstock_operator.decide.budgets.update import (
    affected,
    next_ledger,
    requests_of_deleted,
    requests_of_unreadable,
)
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.gateway import gateway_plan
from penstock_operator.decide.limits import acknowledged, desired_limits, publish, pushes
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.manifests.replica_conflict import contest
from penstock_operator.decide.manifests.rollout import rollout
from penstock_operator.decide.manifests.workload import is_updating, own_workload
from penstock_operator.decide.plan import Plan, PoolFailure, PoolPlan
from penstock_operator.decide.planning import memoized
from penstock_operator.decide.planning.children import name_conflicts
from penstock_operator.decide.planning.parent import plan_parent
from penstock_operator.decide.planning.planner_state import PlannerState
from penstock_operator.decide.planning.pool_draft import PassContext, PoolDraft, draft
from penstock_operator.decide.planning.shadow import Shadow, record_step
from penstock_operator.decide.pool_outcome import PoolOutcome
from penstock_operator.decide.quota_ledger import QuotaGrant, QuotaLedger
from penstock_operator.decide.scaling import checkpoint
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.decision import (
    ScalingOutcome,
    ScalingState,
    checkpoint_data,
    conclude,
)
from penstock_operator.decide.scaling.signals.attainment import Objectives, advance
from penstock_operator.decide.scaling.signals.windows import store_time
from penstock_operator.decide.scaling.zero import may_be_at_zero
from penstock_operator.decide.spec.schedules import openings
from penstock_operator.decide.status.conditions import all_conditions
from penstock_operator.decide.status.conditions.kstatus import is_stalled, startable
from penstock_operator.decide.status.events import pool_events
from penstock_operator.decide.status.policies import policy_plans
from penstock_operator.decide.status.pool import figures, pool_status
from penstock_operator.decide.variants.measure import variant_figures
from penstock_operator.observed import Observed, PodSample, PoolView
from penstock_operator.variants import NO_FIGURES, VariantFigures

EMPTY_LEDGER = QuotaLedger()


def make_plan(
    observed: Observed,
    states: Mapping[str, object],
    config: DecideConfig,
    now: float,
    ledger: QuotaLedger = EMPTY_LEDGER,
) -> Plan:
    """Return the plan of one pass.

    `states` are the plans' `law_state` of the pass before, `ledger` is the ledger of the pass before. A pool that is
    being deleted gets no plan: its children are garbage collected. A pool whose planning raises gets a failure
    instead of a plan. One that cannot be read keeps its quota requests, and delays no budget if it has none; one that is
    deleted keeps those for devices that its pods still use.
    """
    context = PassContext(observed, config, openings(observed.policies, now), now)
    drafts: list[PoolDraft] = []
    plans: list[PoolPlan] = []
    failures: list[PoolFailure] = []
    requests = {uid: requests_of_unreadable(ledger, uid) for uid in observed.unreadable_pools}
    deleted = {
        pool.uid: requests_of_deleted(ledger, pool, observed.policies)
        for pool in observed.deleted_pools
    }
    requests |= deleted
    for view in observed.pools:
        pool = view.pool
        if pool.deleting or pool.uid in deleted:
            continue
        try:
            if pool.spec.variants:
                plans.append(plan_parent(view, states.get(pool.uid), context))
                requests[pool.uid] = ()
                continue
            drafts.append(draft(view, states.get(pool.uid), context))
            requests[pool.uid] = drafts[-1].quota_requests
        except Exception as error:  # noqa: BLE001 - the caller reports it; other pools continue
            failures.append(PoolFailure(pool.uid, pool.namespace, pool.name, error))
            if not ledger.knows(pool.uid):
                requests[pool.uid] = ()
    after = next_ledger(ledger, requests, observed.policies, observed.all_pools, now)
    for drafted in drafts:
        pool = drafted.view.pool
        try:
            plans.append(plan_pool(drafted, after.grants.get(pool.uid), observed, now))
        except Exception as error:  # noqa: BLE001 - as above
            failures.append(PoolFailure(pool.uid, pool.namespace, pool.name, error))
    policies = policy_plans(observed, after, now) if observed.policies_readable else ()
    changed = affected(ledger, after, requests)
    return Plan(tuple(plans), policies, tuple(failures), after, changed)


def plan_pool(
    drafted: PoolDraft, grant: QuotaGrant | None, observed: Observed, now: float
) -> PoolPlan:
    """Return the plan of one pool within its grant."""
    view, rollback = drafted.view, drafted.rollback
    outcome, state = decide_pool(drafted, grant, observed, now)
    writes = memoized.child_writes(drafted.memoized.writes, outcome, observed.control_keys)
    to_push = pushes(view, outcome.limits) if outcome.limits is not None else ()
    conditions = all_conditions(outcome, now)
    serving, changing, *_ = conditions
    checkpointed_at, checkpoint_write = _checkpoint(drafted, outcome, state, now)
    acts = bool(writes.value or to_push)
    busy = busy_until(outcome, drafted.state.busy_until, now, acts=acts)
    return PoolPlan(
        uid=view.pool.uid,
        namespace=view.pool.namespace,
        name=view.pool.name,
        writes=writes.value,
        limits=outcome.limits,
        pushes=to_push,
        status=pool_status(outcome, conditions, now),
        events=pool_events(outcome, conditions),
        law_state=state._replace(
            busy_until=busy,
            checkpointed_at=checkpointed_at,
            memoized=drafted.memoized._replace(writes=writes),
        ),
        active=is_active(outcome, busy, now),
        record=rollback.record.as_json() if rollback.record is not None else None,
        figures=figures(
            outcome,
            state.attainment,
            startable(outcome, serving, changing, now),
            stalled=is_stalled(conditions),
        ),
        checkpoint=checkpoint_write,
        law_failure=outcome.scaling.failure,
    )


def decide_pool(
    drafted: PoolDraft, grant: QuotaGrant | None, observed: Observed, now: float
) -> tuple[PoolOutcome, PlannerState]:
    """Return the decisions about a pool, and its planner state after them."""
    view, before, spec, rollback = drafted.view, drafted.state, drafted.effective, drafted.rollback
    scaling_state, scaling = conclude(drafted.proposal, quota(grant), now)
    shadow, candidate = _shadow(drafted, scaling.replicas, now)
    conflicts, deployed = name_conflicts(view, drafted.peers), own_workload(view)
    hold = spec.hold if may_be_at_zero(spec) else None
    gateway = gateway_plan(view, observed.routed_pools, drafted.config, now, hold)
    replicas = _allowed_replicas(view, scaling, drafted.pinned)
    contested = contest(deployed, replicas, before.contest, now)
    transitions = observed.lease_transitions.get(view.pool.namespace, 0)
    desired = desired_limits(spec, scaling.cap)
    started = deployed is not None or not conflicts
    limits = publish(desired, drafted.published, view, transitions) if started else None
    surge = before.surge.seen(view, grant, now)
    rolling = rollout(view, deployed, drafted.pinned, surge, now)
    staying = tuple(pod for pod in view.pods if not pod.terminating)
    objectives = Objectives.of(spec.law)
    known = before.attainment.until(store_time(view.signals, now))
    attainment = advance(known, view.signals.samples, objectives)
    on_time = before.on_time.add(now, attainment)
    outcome = PoolOutcome(
        view=view,
        effective=spec,
        scaling=scaling,
        pinned=drafted.pinned,
        count=contested.count,
        conflicts=conflicts,
        limits=limits,
        policies_readable=observed.policies_readable,
        unreadable_policies=observed.unreadable_policies,
        pool_schema=observed.pool_schema,
        rollout=replace(rolling, updating=is_updating(deployed)),
        quota_request=drafted.quota_request,
        grant=grant,
        candidate=candidate,
        rolled_back=rollback.rolled_back,
        on_trial=rollback.record is not None and bool(rollback.record.trial),
        peers=drafted.peers,
        gateway=gateway,
        contested=contested.backs_off,
        on_time=on_time.share if objectives.any else None,
        cost=None if drafted.price is None else drafted.price.cost(on_time.throughput),
        pods=staying,
        ready=tuple(pod for pod in staying if pod.ready),
        variant=_variant_figures(drafted, scaling_state, now),
    )
    return outcome, PlannerState(
        time=now,
        scaling=scaling_state,
        limits=limits,
        attainment=attainment,
        on_time=on_time,
        rollback_watch=rollback.watch,
        rollback_record=rollback.record,
        shadow=shadow,
        surge=surge.after(rolling, now),
        contest=contested.writes,
    )


def _variant_figures(drafted: PoolDraft, after: ScalingState, now: float) -> VariantFigures:
    """Return the figures for the pool with the variants, if this is the pool of one."""
    if drafted.view.pool.variant_of is None or not isinstance(after.law, CapacityState):
        return NO_FIGURES
    price, proposal = drafted.price, drafted.proposal
    per_pod = None if price is None or price.per_replica is None else float(price.per_replica)
    fixed = None if price is None or price.per_template is None else float(price.per_template)
    figures = variant_figures(after.law, proposal.observed, proposal.decision, per_pod, now)
    return figures._replace(template_per_hour=fixed)


def _checkpoint(
    drafted: PoolDraft, outcome: PoolOutcome, after: PlannerState, now: float
) -> tuple[float, ChildWrite | None]:
    """Return the time of the last checkpoint decision, and the checkpoint to write if one is due."""
    before = drafted.state.checkpointed_at
    if before is None or 0 <= now - before < checkpoint.INTERVAL_SECONDS:
        return (now if before is None else before), None
    data = checkpoint_data(after.scaling)
    if not data or outcome.limits is None:
        return now, None
    algorithm = outcome.effective.algorithm.value
    return now, checkpoint.checkpoint_write(outcome.view, algorithm, data, now)


def _shadow(
    drafted: PoolDraft, actual: int, now: float
) -> tuple[Shadow | None, CandidateDecision | None]:
    """Return one step of the policy's candidate, compared with the `actual` count."""
    candidate = drafted.candidate
    if candidate is None:
        return None, None
    stepped = conclude(candidate.proposal, None, now)
    return record_step(candidate.before, candidate.policy, stepped, actual, now)


def _allowed_replicas(view: PoolView, scaling: ScalingOutcome, pinned: Pinned) -> int:
    """Return the count; no new pod starts from a template outside the bounds, and running pods stay."""
    if pinned.may_start_pods:
        return scaling.replicas
    deployed = own_workload(view)
    live = int(deployed.manifest["spec"].get("replicas", 1)) if deployed is not None else 0
    return min(live, scaling.replicas)


QUIET_SECONDS = 120.0
"""Time after the last activity until a pool is idle: longer than the gap between two requests of a pool in use."""
IDLE_DUTY = 0.02


def busy_until(outcome: PoolOutcome, before: float, now: float, *, acts: bool) -> float:
    """Return the time until which the pool counts as busy; `acts`: this pass writes or pushes."""
    alive = acts or any(_works(sample) for sample in outcome.view.signals.samples)
    return max(before, now + QUIET_SECONDS) if alive else before


def is_active(outcome: PoolOutcome, busy: float, now: float) -> bool:
    """Return whether the pool is busy or not yet in its desired state."""
    return now < busy or not _settled(outcome)


def _works(sample: PodSample) -> bool:
    has_requests = bool(sample.waiting or sample.running)
    return has_requests or (sample.gpu_utilization or 0.0) > IDLE_DUTY


def _settled(outcome: PoolOutcome) -> bool:
    """Return whether the pool is in its desired state; one with a name conflict is, since a deletion makes it due."""
    if outcome.conflicts or outcome.pinned.template is None:
        return True
    limits, view = outcome.limits, outcome.view
    all_ready = len(view.pods) == len(outcome.ready) == outcome.replicas
    granted = outcome.scaling.replicas == outcome.replicas
    return (
        all_ready
        and granted
        and outcome.gateway.settled
        and limits is not None
        and all(acknowledged(view, pod, limits) for pod in outcome.ready)
    )
