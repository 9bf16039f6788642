"""The pass's middle: what was observed becomes one plan. Pure; one pool's failure is its own.

First each pool by itself (`pool_draft.py`): effective spec, its law's step, the pinned template, its claim to devices.
Then all claims together (`budgets/`): who gets the devices that several want. Then each pool is finished:
count -> children -> limits -> pushes -> conditions -> status -> Events.

How soon a pool is to be looked at again: at the fast tick while anything goes on, else at the slow.
"""

from collections.abc import Mapping
from dataclasses import replace

from penstock_api.types.status import CandidateDecision
from penstock_operator.decide import memoized
from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.budgets.claims import allowance
from penstock_operator.decide.budgets.update import affected, next_ledger
from penstock_operator.decide.children import conflicts
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.ledger import QuotaGrant, QuotaLedger, QuotaRequest
from penstock_operator.decide.limits import acknowledged, desired_limits, publish, pushes
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.manifests.replica_conflict import contest
from penstock_operator.decide.manifests.rollout import rollout
from penstock_operator.decide.plan import Plan, PoolFailure, PoolPlan
from penstock_operator.decide.planner_state import PlannerState
from penstock_operator.decide.pool_draft import PassContext, PoolDraft, draft
from penstock_operator.decide.pool_outcome import PoolOutcome, own_deployment
from penstock_operator.decide.scaling import checkpoint
from penstock_operator.decide.scaling.decision import ScalingOutcome, conclude, learnt
from penstock_operator.decide.scaling.signals.attainment import Objectives, advance
from penstock_operator.decide.shadow import Shadow, recorded
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.decide.spec.schedules import openings
from penstock_operator.decide.status.conditions import all_conditions
from penstock_operator.decide.status.events import pool_events
from penstock_operator.decide.status.policies import policy_plans
from penstock_operator.decide.status.pool import figures, pool_status
from penstock_operator.observed import Observed, PodSample, PoolView

NOTHING_CLAIMED = QuotaLedger()


def make_plan(
    observed: Observed,
    states: Mapping[str, object],
    config: DecideConfig,
    now: float,
    ledger: QuotaLedger = NOTHING_CLAIMED,
) -> Plan:
    """Return everything one pass wants.

    `states` are the plans' `law_state` of the pass before, `ledger` is that of the pass before, of all pools.
    A pool that is being deleted gets no plan: its children go with it. A pool whose planning raises
    gets a failure instead of a plan.
    """
    moment = PassContext(observed, config, openings(observed.policies, now), now)
    drafts: list[PoolDraft] = []
    plans: list[PoolPlan] = []
    failures: list[PoolFailure] = []
    claims: dict[str, tuple[QuotaRequest, ...]] = {}
    for view in observed.pools:
        pool = view.pool
        if pool.deleting:
            continue
        try:
            drafts.append(draft(view, states.get(pool.uid), moment))
            claims[pool.uid] = drafts[-1].claims
        except Exception as error:  # noqa: BLE001 - told by the caller; other pools must go on
            failures.append(PoolFailure(pool.uid, pool.namespace, pool.name, error))
            if not ledger.knows(pool.uid):
                claims[pool.uid] = ()
    after = next_ledger(ledger, claims, observed.policies, observed.all_pools, now)
    for one in drafts:
        pool = one.view.pool
        try:
            plans.append(plan_pool(one, after.grants.get(pool.uid), observed, now))
        except Exception as error:  # noqa: BLE001 - as above
            failures.append(PoolFailure(pool.uid, pool.namespace, pool.name, error))
    policies = policy_plans(observed, after, now) if observed.policies_readable else ()
    woken = affected(ledger, after, claims)
    return Plan(tuple(plans), policies, tuple(failures), after, woken)


def plan_pool(one: PoolDraft, grant: QuotaGrant | None, observed: Observed, now: float) -> PoolPlan:
    """Return what one pool wants, within what is granted to it."""
    view = one.view
    found, memory_after = decide_pool(one, grant, observed, now)
    family = memoized.writes(one.standing.writes, found, observed.control_keys)
    writes = family.value
    told = pushes(view, found.limits) if found.limits is not None else ()
    conditions = all_conditions(found)
    kept_at, keep = _kept(one, found, memory_after, now)
    busy = busy_until(found, one.memory.busy_until, now, moves=bool(writes or told))
    return PoolPlan(
        uid=view.pool.uid,
        namespace=view.pool.namespace,
        name=view.pool.name,
        writes=writes,
        limits=found.limits,
        pushes=told,
        status=pool_status(found, conditions, now),
        events=pool_events(found, conditions),
        law_state=replace(
            memory_after,
            busy_until=busy,
            kept_at=kept_at,
            standing=replace(one.standing, writes=family),
        ),
        active=is_active(found, busy, now),
        record=one.ruling.record.as_json() if one.ruling.record is not None else None,
        figures=figures(found, memory_after.attainment),
        checkpoint=keep,
        law_failure=found.outcome.failure,
    )


def decide_pool(
    one: PoolDraft, grant: QuotaGrant | None, observed: Observed, now: float
) -> tuple[PoolOutcome, PlannerState]:
    """Return everything decided about a pool, and what to remember of it."""
    view, memory, spec = one.view, one.memory, one.effective
    scaling, outcome = conclude(one.proposal, allowance(grant), now)
    shadow, tried = _shadow(one, outcome.replicas, now)
    taken, deployed = conflicts(view, one.peers), own_deployment(view)
    fight = contest(deployed, _allowed_replicas(view, outcome, one.pinned), memory.contest, now)
    begun = deployed is not None or not taken
    wanted = desired_limits(spec, outcome.cap)
    transitions = observed.lease_transitions.get(view.pool.namespace, 0)
    limits = publish(wanted, one.published, view, transitions) if begun else None
    staying = tuple(pod for pod in view.pods if not pod.terminating)
    found = PoolOutcome(
        view=view,
        effective=spec,
        outcome=outcome,
        pinned=one.pinned,
        count=fight.count,
        conflicts=taken,
        limits=limits,
        policies_readable=observed.policies_readable,
        pool_schema=observed.pool_schema,
        rollout=rollout(view, deployed, one.pinned, grant, now),
        claim=one.claim,
        grant=grant,
        candidate=tried,
        set_aside=one.ruling.told,
        on_trial=one.ruling.record is not None and bool(one.ruling.record.trial),
        peers=one.peers,
        contested=fight.backs_off,
        pods=staying,
        ready=tuple(pod for pod in staying if pod.ready),
    )
    attained = advance(memory.attainment, view.signals.samples, _objectives(spec.law))
    return found, PlannerState(
        scaling=scaling,
        limits=limits,
        attainment=attained,
        watch=one.ruling.watch,
        record=one.ruling.record,
        shadow=shadow,
        contest=fight.seen,
    )


def _objectives(law: LawSettings) -> Objectives:
    return Objectives(
        law.objective_milliseconds, law.first_token_milliseconds, law.output_token_milliseconds
    )


def _kept(
    one: PoolDraft, found: PoolOutcome, after: PlannerState, now: float
) -> tuple[float, ChildWrite | None]:
    """Return when the law's memory was last looked at for keeping, and the write that keeps it."""
    before = one.memory.kept_at
    if before is None or now - before < checkpoint.EVERY_SECONDS:
        return (now if before is None else before), None
    data = learnt(after.scaling)
    if not data or found.limits is None:
        return now, None
    return now, checkpoint.checkpoint(found.view, found.effective.algorithm.value, data, now)


def _shadow(
    one: PoolDraft, actual: int, now: float
) -> tuple[Shadow | None, CandidateDecision | None]:
    """Return one step of the candidate that is tried on the pool, beside the `actual` count."""
    trial = one.trial
    if trial is None:
        return None, None
    stepped = conclude(trial.proposal, None, now)
    return recorded(trial.before, trial.policy, stepped, actual, now)


def _allowed_replicas(view: PoolView, outcome: ScalingOutcome, pinned: Pinned) -> int:
    """A template outside the bounds starts no further pod, while those that run stay."""
    if pinned.may_start_pods:
        return outcome.replicas
    deployed = own_deployment(view)
    live = int(deployed.manifest["spec"].get("replicas", 1)) if deployed is not None else 0
    return min(live, outcome.replicas)


QUIET_SECONDS = 120.0
"""After the last sign of life: longer than the gap between two requests of a pool in use."""
IDLE_DUTY = 0.02


def busy_until(found: PoolOutcome, before: float, now: float, *, moves: bool) -> float:
    """Return until when the pool counts as busy; `moves`: this pass writes or pushes."""
    alive = moves or any(_works(one) for one in found.view.signals.samples)
    return max(before, now + QUIET_SECONDS) if alive else before


def is_active(found: PoolOutcome, busy: float, now: float) -> bool:
    """Tell whether the pool is busy, or not yet what it should be."""
    return now < busy or not _settled(found)


def _works(sample: PodSample) -> bool:
    holds = bool(sample.waiting or sample.running)
    return holds or (sample.gpu_utilization or 0.0) > IDLE_DUTY


def _settled(found: PoolOutcome) -> bool:
    """A pool that waits for somebody else's object to go is settled: its going is an event."""
    if found.conflicts or found.pinned.template is None:
        return True
    limits = found.limits
    counts = len(found.view.pods) == len(found.ready) == found.replicas
    wish = found.outcome.replicas == found.replicas
    obeyed = limits is not None and all(
        acknowledged(found.view, pod, limits) for pod in found.ready
    )
    return counts and wish and obeyed
