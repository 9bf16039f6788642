"""What each policy's status should read: how many pools it selects, and with whom it disagrees."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from penstock_api.conditions import Condition, ConditionStatus, condition, merge
from penstock_api.policy import PolicyStatus
from penstock_operator.decide.conditions.policy import tie_sentence
from penstock_operator.decide.defaults import Tie, policy_defaults
from penstock_operator.decide.plan import PolicyPlan
from penstock_operator.decide.selectors import matching
from penstock_operator.decide.status import rfc3339
from penstock_operator.observed import Observed, PolicyObject


def policy_plans(observed: Observed, now: float) -> tuple[PolicyPlan, ...]:
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
        PolicyPlan(one.name, _status(one, matched[one.name], sorted_ties(ties[one.name]), now))
        for one in observed.policies
    )


def sorted_ties(ties: set[Tie]) -> list[Tie]:
    """Return ties in a stable order, so that a message does not change by itself."""
    return sorted(ties, key=lambda tie: (tie.field, tie.policies))


def _status(policy: PolicyObject, matched: int, ties: Sequence[Tie], now: float) -> PolicyStatus:
    conditions = (
        condition("Accepted", ConditionStatus.TRUE, "Valid", "the policy is in force"),
        _conflicted(ties),
    )
    held = policy.status.conditions or ()
    return PolicyStatus(
        observed_generation=policy.generation,
        matched_pools=matched,
        conditions=merge(held, conditions, policy.generation, rfc3339(now)),
    )


def _conflicted(ties: Sequence[Tie]) -> Condition:
    if not ties:
        message = "no policy of equal priority disagrees"
        return condition("Conflicted", ConditionStatus.FALSE, "NoConflict", message)
    message = "; ".join(tie_sentence(tie) for tie in ties)
    return condition("Conflicted", ConditionStatus.TRUE, "EqualPriority", message)
