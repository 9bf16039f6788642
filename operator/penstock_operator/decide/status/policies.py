"""The desired status of each policy: selected pools, conflicts with other policies, and use of its budgets."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from penstock_api.conditions import Condition, ConditionStatus, condition, merge
from penstock_api.types.policy import BudgetStatus, PolicyStatus
from penstock_operator.decide.plan import PolicyPlan
from penstock_operator.decide.quota_ledger import QuotaLedger
from penstock_operator.decide.scaling.report.conditions import rfc3339
from penstock_operator.decide.spec.policy_defaults import Tie, policy_defaults
from penstock_operator.decide.spec.schedules import faults
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.decide.status.conditions.policy_applied import tie_sentence
from penstock_operator.observed import Observed, PolicyObject


def policy_plans(observed: Observed, ledger: QuotaLedger, now: float) -> tuple[PolicyPlan, ...]:
    """Return the desired status of every readable policy, over all pools, due or not."""
    unreadable = {policy.name for policy in observed.unreadable_policies}
    matched: Counter[str] = Counter()
    ties: defaultdict[str, set[Tie]] = defaultdict(set)
    ties_of: dict[tuple[str, ...], tuple[Tie, ...]] = {}
    for pool in observed.all_pools:
        selected = matching(pool.labels, pool.namespace_labels, observed.policies)
        names = tuple(policy.name for policy in selected)
        matched.update(names)
        if names not in ties_of:  # many pools share few sets of policies
            ties_of[names] = policy_defaults(selected, {}).ties
        for tie in ties_of[names]:
            for name in tie.policies:
                ties[name].add(tie)
    return tuple(
        PolicyPlan(
            policy.name,
            _status(
                policy,
                matched[policy.name],
                sorted_ties(ties[policy.name]),
                budget_statuses(policy, ledger),
                now,
            ),
        )
        for policy in observed.policies
        if policy.name not in unreadable
    )


def budget_statuses(policy: PolicyObject, ledger: QuotaLedger) -> tuple[BudgetStatus, ...]:
    """Return the use of each of a policy's budgets, in devices."""
    statuses = []
    for budget in policy.spec.gpu_budgets or ():
        wanted = granted = used = 0
        for uid, request in ledger.requests.items():
            if request.resource == budget.resource_name and policy.name in request.policies:
                grant = ledger.grants.get(uid)
                wanted += request.requested * request.per_replica
                granted += 0 if grant is None else grant.entitled * request.per_replica
                used += request.used
        statuses.append(
            BudgetStatus(
                resource_name=budget.resource_name, wanted=wanted, granted=granted, used=used
            )
        )
    return tuple(statuses)


def sorted_ties(ties: set[Tie]) -> list[Tie]:
    """Return ties in a stable order, so that messages are stable too."""
    return sorted(ties, key=lambda tie: (tie.field, tie.policies))


def _status(
    policy: PolicyObject,
    matched: int,
    ties: Sequence[Tie],
    budgets: tuple[BudgetStatus, ...],
    now: float,
) -> PolicyStatus:
    conditions = (
        _accepted(policy),
        _conflicted(ties),
        _exhausted(budgets),
    )
    stored = policy.status.conditions or ()
    return PolicyStatus(
        observed_generation=policy.generation,
        matched_pools=matched,
        budgets=budgets or None,
        conditions=merge(stored, conditions, policy.generation, rfc3339(now)),
    )


def _accepted(policy: PolicyObject) -> Condition:
    invalid = faults(policy)
    if invalid:
        message = f"{'; '.join(invalid)}; the rest of the policy is in force"
        return condition("Accepted", ConditionStatus.FALSE, "ScheduleInvalid", message)
    return condition("Accepted", ConditionStatus.TRUE, "Valid", "the policy is in force")


def _exhausted(budgets: Sequence[BudgetStatus]) -> Condition:
    if not budgets:
        return condition(
            "BudgetExhausted", ConditionStatus.FALSE, "NoBudget", "the policy sets no budget"
        )
    short = [budget for budget in budgets if budget.granted < budget.wanted]
    if not short:
        message = "every pool has the devices that it requests"
        return condition("BudgetExhausted", ConditionStatus.FALSE, "EnoughForAll", message)
    message = "; ".join(
        f"{budget.wanted} {budget.resource_name} requested, {budget.granted} granted: raise the budget's count"
        for budget in short
    )
    return condition("BudgetExhausted", ConditionStatus.TRUE, "MoreWanted", message)


def _conflicted(ties: Sequence[Tie]) -> Condition:
    if not ties:
        message = "no policy of equal priority sets a different default"
        return condition("Conflicted", ConditionStatus.FALSE, "NoConflict", message)
    message = "; ".join(tie_sentence(tie) for tie in ties)
    return condition("Conflicted", ConditionStatus.TRUE, "EqualPriority", message)
