"""The draft of one pool: its effective spec, template, law step and quota requests, before budgets are divided."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock_api.pod_contract import LimitsUpdate
from penstock_operator.decide.budgets.requests import quota_requests
from penstock_operator.decide.config import DecideConfig, PoolPeers
from penstock_operator.decide.cost.pool_cost import PoolPrice
from penstock_operator.decide.limits import all_acknowledged, published
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.planning import memoized
from penstock_operator.decide.planning.memoized import AppliedPolicies, MemoizedInputs
from penstock_operator.decide.planning.planner_state import PlannerState, planner_state
from penstock_operator.decide.planning.shadow import (
    Shadow,
    apply_candidate,
    candidate_policy,
    resume,
)
from penstock_operator.decide.quota_ledger import QuotaRequest
from penstock_operator.decide.rollback.decision import (
    RollbackDecision,
    RollbackInput,
    decide_rollback,
)
from penstock_operator.decide.rollback.record import read_record
from penstock_operator.decide.scaling.decision import Proposal, propose
from penstock_operator.decide.scaling.zero import never_at_zero
from penstock_operator.decide.spec.effective import EffectiveSpec, effective
from penstock_operator.decide.spec.scaling_mode import with_unset_mode
from penstock_operator.decide.spec.schedules import Opening
from penstock_operator.observed import Observed, PolicyObject, PoolView


@dataclass(frozen=True, slots=True)
class CandidateProposal:
    """The law step of a policy's candidate for the same observation."""

    policy: PolicyObject
    before: Shadow | None
    proposal: Proposal


class PoolDraft(NamedTuple):
    """One pool, decided as far as that is possible without the other pools."""

    view: PoolView
    state: PlannerState
    effective: EffectiveSpec
    pinned: Pinned
    published: LimitsUpdate | None
    proposal: Proposal
    quota_requests: tuple[QuotaRequest, ...]
    memoized: MemoizedInputs
    rollback: RollbackDecision
    config: DecideConfig
    price: PoolPrice | None
    """Price of the pods; None while no policy has prices."""
    candidate: CandidateProposal | None = None

    @property
    def peers(self) -> PoolPeers | None:
        """Return the sources that the pool's NetworkPolicy admits."""
        return self.config.peers

    @property
    def quota_request(self) -> QuotaRequest | None:
        """Return the pool's request for replicas, without the devices that pods of earlier templates use."""
        return next((item for item in self.quota_requests if not item.remains_of), None)


@dataclass(frozen=True, slots=True)
class PassContext:
    """The inputs that all pools of one pass share."""

    observed: Observed
    config: DecideConfig
    open_now: dict[str, Opening]
    """Open windows of the schedules, by policy."""
    now: float


def draft(view: PoolView, law_state: object | None, context: PassContext) -> PoolDraft:
    """Return the draft of one pool; `law_state` is that of its last plan, None at its first pass."""
    observed, config, now = context.observed, context.config, context.now
    view = with_unset_mode(view, observed.pool_schema)
    state = planner_state(law_state, now)
    applied = memoized.applied_policies(state.memoized.policies, view, observed, context.open_now)
    policies = applied.value.policies
    template = memoized.pinned_template(state.memoized.template, view, policies, config)
    price = memoized.price_of_pods(state.memoized.price, view, template.value, policies)
    stored = memoized.stored_limits(state.memoized.limits, view)
    before = published(stored.value, state.limits)
    acknowledged = before is not None and all_acknowledged(view, before)
    task = view.pool.spec.model.task
    record = state.rollback_record or read_record(view.settings_record, task)
    rollback = decide_rollback(
        applied.value.effective,
        policies,
        (state.rollback_watch, record),
        RollbackInput(state.attainment, acknowledged, now),
    )
    spec = rollback.effective if config.gateway is not None else never_at_zero(rollback.effective)
    proposal = propose(spec, view, before, state.scaling, now)
    return PoolDraft(
        view=view,
        state=state,
        effective=spec,
        pinned=template.value,
        published=before,
        proposal=proposal,
        quota_requests=quota_requests(proposal, template.value.template, policies, now),
        memoized=MemoizedInputs(applied, template, stored, state.memoized.writes, price),
        rollback=rollback,
        candidate=_candidate(view, state, applied.value, before, context),
        config=config,
        price=price.value,
    )


def _candidate(
    view: PoolView,
    state: PlannerState,
    applied: AppliedPolicies,
    published: LimitsUpdate | None,
    context: PassContext,
) -> CandidateProposal | None:
    policy = candidate_policy(applied.policies)
    if policy is None:
        return None
    shadowed, kept = apply_candidate(applied.policies, policy), applied.effective.policy_defaults
    spec = effective(view.pool, view.namespace_labels, shadowed, kept, context.open_now)
    before = resume(state.shadow, policy)
    scaling = None if before is None else before.scaling
    return CandidateProposal(policy, before, propose(spec, view, published, scaling, context.now))
