"""The pass's middle: what was observed becomes one plan. Pure; one pool's failure is its own.

For each pool: effective spec -> both valves -> pinned template -> children -> limits -> pushes ->
conditions -> status -> Events.
"""

from collections.abc import Mapping
from dataclasses import replace

from penstock_operator.decide.activity import busy_until, is_active
from penstock_operator.decide.conditions import all_conditions
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.contest import contest
from penstock_operator.decide.effective import effective
from penstock_operator.decide.events import pool_events
from penstock_operator.decide.family import conflicts, family_writes, held_defaults
from penstock_operator.decide.findings import Findings, own_deployment
from penstock_operator.decide.limits import publish, published, pushes, wanted_limits
from penstock_operator.decide.plan import Plan, PoolFailure, PoolPlan
from penstock_operator.decide.policies import policy_plans
from penstock_operator.decide.scaling.decision import ScalingOutcome, decide_scaling
from penstock_operator.decide.selectors import matching
from penstock_operator.decide.state import PoolMemory, remembered
from penstock_operator.decide.status import pool_status
from penstock_operator.decide.templates import Pinned, pin
from penstock_operator.observed import Observed, PoolView


def make_plan(
    observed: Observed, states: Mapping[str, object], config: DecideConfig, now: float
) -> Plan:
    """Return everything one pass wants; `states` are the plans' `law_state` of the pass before.

    A pool that is being deleted gets no plan: its children go with it. A pool whose planning raises
    gets a failure instead of a plan.
    """
    plans: list[PoolPlan] = []
    failures: list[PoolFailure] = []
    for view in observed.pools:
        pool = view.pool
        if pool.deleting:
            continue
        try:
            plans.append(plan_pool(view, observed, states.get(pool.uid), config, now))
        except Exception as error:  # noqa: BLE001 - told by the caller; other pools must go on
            failures.append(PoolFailure(pool.uid, pool.namespace, pool.name, error))
    policies = policy_plans(observed, now) if observed.policies_readable else ()
    return Plan(tuple(plans), policies, tuple(failures))


def plan_pool(
    view: PoolView, observed: Observed, state: object | None, config: DecideConfig, now: float
) -> PoolPlan:
    """Return what one pool wants; `state` is what its last plan carried, None for a pool just met."""
    memory = remembered(state)
    found, memory_after = find(view, observed, memory, config, now)
    writes = family_writes(found, observed.control_keys)
    told = pushes(view, found.limits) if found.limits is not None else ()
    conditions = all_conditions(found)
    busy = busy_until(found, memory.busy_until, now, moves=bool(writes or told))
    return PoolPlan(
        uid=view.pool.uid,
        namespace=view.pool.namespace,
        name=view.pool.name,
        writes=writes,
        limits=found.limits,
        pushes=told,
        status=pool_status(found, conditions, now),
        events=pool_events(found, conditions),
        law_state=replace(memory_after, busy_until=busy),
        active=is_active(found, busy, now),
    )


def find(
    view: PoolView, observed: Observed, memory: PoolMemory, config: DecideConfig, now: float
) -> tuple[Findings, PoolMemory]:
    """Return everything decided about a pool, and what to remember of it."""
    spec = effective(view.pool, view.namespace_labels, observed.policies, held_defaults(view))
    before = published(view, memory.limits)
    scaling, outcome = decide_scaling(spec, view, before, memory.scaling, now)
    policies = matching(view.pool.labels, view.namespace_labels, observed.policies)
    pinned = pin(view, policies, config)
    taken, deployed = conflicts(view), own_deployment(view)
    fight = contest(deployed, _allowed_replicas(view, outcome, pinned), memory.contest, now)
    begun = deployed is not None or not taken
    wanted = wanted_limits(spec, outcome.cap)
    limits = publish(wanted, before, view, observed.lease_transitions) if begun else None
    found = Findings(
        view=view,
        effective=spec,
        outcome=outcome,
        pinned=pinned,
        count=fight.count,
        conflicts=taken,
        limits=limits,
        policies_readable=observed.policies_readable,
        contested=fight.backs_off,
    )
    return found, PoolMemory(scaling=scaling, limits=limits, contest=fight.seen)


def _allowed_replicas(view: PoolView, outcome: ScalingOutcome, pinned: Pinned) -> int:
    """A template outside the bounds starts no further pod, while those that run stay."""
    if pinned.may_start_pods:
        return outcome.replicas
    deployed = own_deployment(view)
    live = int(deployed.manifest["spec"].get("replicas", 1)) if deployed is not None else 0
    return min(live, outcome.replicas)
