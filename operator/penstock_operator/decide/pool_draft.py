"""A pool in mid-pass: what its own spec and law want, before other pools' needs are weighed against it."""

from dataclasses import dataclass

from penstock_api.limits import LimitsUpdate
from penstock_operator.decide.budgets.claims import claims
from penstock_operator.decide.config import DecideConfig, PoolPeers
from penstock_operator.decide.ledger import QuotaRequest
from penstock_operator.decide.limits import all_obey, published
from penstock_operator.decide.manifests.pinned_template import Pinned
from penstock_operator.decide.memoized import MemoizedInputs, pinned, ruled, stored
from penstock_operator.decide.planner_state import PlannerState, remembered
from penstock_operator.decide.rollback.ruling import RollbackDecision, RollbackInput, rule
from penstock_operator.decide.scaling.decision import Proposal, propose
from penstock_operator.decide.shadow import Shadow, carrier, continued, in_place
from penstock_operator.decide.spec.effective import EffectiveSpec, effective
from penstock_operator.decide.spec.schedules import Opening
from penstock_operator.observed import Observed, PolicyObject, PoolView


@dataclass(frozen=True, slots=True)
class Trial:
    """What the candidate of a policy makes of the same moment."""

    policy: PolicyObject
    before: Shadow | None
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class PoolDraft:
    """One pool, decided as far as it can be by itself."""

    view: PoolView
    memory: PlannerState
    effective: EffectiveSpec
    pinned: Pinned
    published: LimitsUpdate | None
    proposal: Proposal
    claims: tuple[QuotaRequest, ...]
    standing: MemoizedInputs
    ruling: RollbackDecision
    trial: Trial | None = None
    peers: PoolPeers | None = None

    @property
    def claim(self) -> QuotaRequest | None:
        """Return what the pool asks for, without what pods of earlier templates hold of other resources."""
        return next((one for one in self.claims if not one.remains_of), None)


@dataclass(frozen=True, slots=True)
class PassContext:
    """What is the same for all pools of one pass."""

    observed: Observed
    config: DecideConfig
    open_now: dict[str, Opening]
    """The schedules' open windows, by policy."""
    now: float


def draft(view: PoolView, state: object | None, moment: PassContext) -> PoolDraft:
    """Return what one pool wants; `state` is what its last plan carried, None for a pool just met."""
    observed, config, now = moment.observed, moment.config, moment.now
    memory = remembered(state)
    words = ruled(memory.standing.ruled, view, observed, moment.open_now)
    policies = words.value.policies
    template = pinned(memory.standing.pinned, view, policies, config)
    told = stored(memory.standing.stored, view)
    before = published(told.value, memory.limits)
    seen = RollbackInput(memory.attainment, before is not None and all_obey(view, before), now)
    held = (memory.watch, memory.record)
    ruling = rule(words.value.effective, policies, view.settings_record, held, seen)
    spec = ruling.effective
    proposal = propose(spec, view, before, memory.scaling, now)
    wishes = claims(proposal, template.value.template, policies, now)
    standing = MemoizedInputs(
        ruled=words, pinned=template, stored=told, writes=memory.standing.writes
    )
    trial = _trial(view, memory, policies, before, moment)
    return PoolDraft(
        view, memory, spec, template.value, before, proposal, wishes, standing, ruling, trial,
        config.peers,
    )  # fmt: skip


def _trial(
    view: PoolView,
    memory: PlannerState,
    policies: tuple[PolicyObject, ...],
    published: LimitsUpdate | None,
    moment: PassContext,
) -> Trial | None:
    policy = carrier(policies)
    if policy is None:
        return None
    shadowed = in_place(policies, policy)
    spec = effective(view.pool, view.namespace_labels, shadowed, {}, moment.open_now)
    before = continued(memory.shadow, policy)
    state = None if before is None else before.scaling
    return Trial(policy, before, propose(spec, view, published, state, moment.now))
