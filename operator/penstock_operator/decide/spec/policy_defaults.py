"""Policy defaults of a pool: for each field the value of the policy with the highest priority.

Where policies of that priority set different values for a field, none of them applies and the value in force before
stays. It is stored in an annotation of the pool's ConfigMap (`previous`), so it outlives the operator; without it the
policies of lower priority decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from penstock_operator.decide.spec.live_fields import Fields, Value, live_fields
from penstock_operator.decide.spec.selectors import priority
from penstock_operator.observed import PolicyObject


@dataclass(frozen=True, slots=True)
class Tie:
    """Policies of equal priority that set different values for one field."""

    field: str
    policies: tuple[str, ...]
    priority: int


@dataclass(frozen=True, slots=True)
class Defaults:
    """The default values of one pool, before its own spec."""

    values: Fields
    """By field; they stay in force when a tie appears."""
    sources: dict[str, str]
    """Policy of each value; fields that keep a value through a tie are absent."""
    ties: tuple[Tie, ...]


def policy_defaults(policies: Sequence[PolicyObject], previous: Fields) -> Defaults:
    """Return the defaults from `policies` (highest priority first); values of `previous` stay through ties."""
    sets = [
        (policy, live_fields(policy.spec.defaults)) for policy in policies if policy.spec.defaults
    ]
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    ties: list[Tie] = []
    for field in sorted({name for _, fields in sets for name in fields}):
        candidates = [(policy, fields[field]) for policy, fields in sets if field in fields]
        tie = _tie(field, candidates)
        if tie is not None:
            ties.append(tie)
            candidates = [(p, value) for p, value in candidates if priority(p) < tie.priority]
        if tie is not None and field in previous:
            values[field] = previous[field]
        elif candidates and _tie(field, candidates) is None:
            values[field], sources[field] = candidates[0][1], candidates[0][0].name
    return Defaults(values, sources, tuple(ties))


def _tie(field: str, candidates: Sequence[tuple[PolicyObject, Value]]) -> Tie | None:
    """Return the tie of the highest priority's values, if they differ."""
    if not candidates:
        return None
    rank, top = next(groupby(candidates, key=lambda candidate: priority(candidate[0])))
    highest = list(top)
    if len({value for _, value in highest}) == 1:
        return None
    return Tie(field, tuple(policy.name for policy, _ in highest), rank)
