"""What each policy's status should read: how many pools it selects, and with whom it disagrees."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from penstock_api.conditions import Condition, ConditionStatus, condition, merge
from penstock_api.types.policy import BudgetStatus, PolicyStatus
from penstock_operator.decide.ledger import QuotaLedger
from penstock_operator.decide.plan import PolicyPlan
from penstock_operator.decide.spec.defaults import Tie, policy_defaults
from penstock_operator.decide.spec.schedules import faults
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.decide.status.conditions.policy import tie_sentence
from penstock_operator.decide.status.pool import rfc3339
from penstock_operator.observed import Observed, PolicyObject


def policy_plans(observed: Observed, ledger: QuotaLedger, now: float) -> tuple[PolicyPlan, ...]:
    """Return the wanted status of every policy, over every pool, due or not."""
    matched: Counter[str] = Counter()
    ties: defaultdict[str, set[Tie]] = defaultdict(set)
    found: dict[tuple[str, ...], tuple[Tie, ...]] = {}
    for pool in observed.all_pools:
        selected = matching(pool.labels, pool.namespace_labels, observed.policies)
        names = tuple(one.name for one in selected)
        matched.update(names)
        if names not in found:  # pools are many, ways of being selected few
            found[names] = policy_defaults(selected, {}).ties
        for tie in found[names]:
            for name in tie.policies:
                ties[name].add(tie)
    return tuple(
        PolicyPlan(
            one.name,
            _status(
                one,
                matched[one.name],
                sorted_ties(ties[one.name]),
                budget_statuses(one, ledger),
                now,
            ),
        )
        for one in observed.policies
    )


def budget_statuses(policy: PolicyObject, ledger: QuotaLedger) -> tuple[BudgetStatus, ...]:
    """Return how each of a policy's budgets is spent, in devices."""
    found = []
    for budget in policy.spec.gpu_budgets or ():
        wanted = granted = used = 0
        for uid, one in ledger.claims.items():
            if one.resource == budget.resource_name and policy.name in one.policies:
                grant = ledger.grants.get(uid)
                wanted += one.requested * one.per_replica
                granted += 0 if grant is None else grant.entitled * one.per_replica
                used += one.used
        found.append(
            BudgetStatus(
                resource_name=budget.resource_name, wanted=wanted, granted=granted, used=used
            )
        )
    return tuple(found)


def sorted_ties(ties: set[Tie]) -> list[Tie]:
    """Return ties in a stable order, so that a message does not change by itself."""
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
    held = policy.status.conditions or ()
    return PolicyStatus(
        observed_generation=policy.generation,
        matched_pools=matched,
        budgets=budgets or None,
        conditions=merge(held, conditions, policy.generation, rfc3339(now)),
    )


def _accepted(policy: PolicyObject) -> Condition:
    wrong = faults(policy)
    if wrong:
        message = f"{'; '.join(wrong)}; all else is in force"
        return condition("Accepted", ConditionStatus.FALSE, "ScheduleInvalid", message)
    return condition("Accepted", ConditionStatus.TRUE, "Valid", "the policy is in force")


def _exhausted(budgets: Sequence[BudgetStatus]) -> Condition:
    if not budgets:
        return condition("BudgetExhausted", ConditionStatus.FALSE, "NoBudget", "it sets no budget")
    short = [one for one in budgets if one.granted < one.wanted]
    if not short:
        message = "every pool has the devices it wants"
        return condition("BudgetExhausted", ConditionStatus.FALSE, "EnoughForAll", message)
    message = "; ".join(
        f"{one.wanted} {one.resource_name} wanted, {one.granted} granted" for one in short
    )
    return condition("BudgetExhausted", ConditionStatus.TRUE, "MoreWanted", message)


def _conflicted(ties: Sequence[Tie]) -> Condition:
    if not ties:
        message = "no policy of equal priority disagrees"
        return condition("Conflicted", ConditionStatus.FALSE, "NoConflict", message)
    message = "; ".join(tie_sentence(tie) for tie in ties)
    return condition("Conflicted", ConditionStatus.TRUE, "EqualPriority", message)
