"""Selection of pools by policies, with the label selectors of meta/v1."""

from collections.abc import Iterable, Mapping

from penstock_api.types.selectors import LabelSelector, SelectorOperator, SelectorRequirement
from penstock_operator.observed import PolicyObject


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether `labels` satisfy every part of `selector`; None and empty select everything."""
    if selector is None:
        return True
    required = selector.match_labels or {}
    if any(labels.get(key) != value for key, value in required.items()):
        return False
    return all(_meets(item, labels) for item in selector.match_expressions or ())


def _meets(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    present = requirement.key in labels
    listed = present and labels[requirement.key] in (requirement.values or ())
    match requirement.operator:
        case SelectorOperator.IN:
            return listed
        case SelectorOperator.NOT_IN:
            return not listed  # an absent key is not in the list either (meta/v1)
        case SelectorOperator.EXISTS:
            return present
        case SelectorOperator.DOES_NOT_EXIST:
            return not present


def matching(
    labels: Mapping[str, str],
    namespace_labels: Mapping[str, str],
    policies: Iterable[PolicyObject],
) -> tuple[PolicyObject, ...]:
    """Return the policies that select a pool of `labels`, the highest priority first, then by name."""
    selected = (
        policy
        for policy in policies
        if matches(policy.spec.namespace_selector, namespace_labels)
        and matches(policy.spec.pool_selector, labels)
    )
    return tuple(sorted(selected, key=lambda policy: (-priority(policy), policy.name)))


def priority(policy: PolicyObject) -> int:
    """Return the policy's priority; unset is 0."""
    return policy.spec.priority or 0
