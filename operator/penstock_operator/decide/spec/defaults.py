"""What the policies' defaults come to: by priority, per field, and never by a coin toss.

Where two policies of the highest priority that names a field want different values, neither applies: the
value previously in force stays. That value is remembered in an annotation of the pool's settings
ConfigMap (`held`), so it outlives the operator; without one, the policies of lower priority decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from penstock_operator.decide.spec.live_fields import Fields, Value, live_fields
from penstock_operator.decide.spec.selectors import priority
from penstock_operator.observed import PolicyObject


@dataclass(frozen=True, slots=True)
class Tie:
    """Policies of one priority that want different values for one field."""

    field: str
    policies: tuple[str, ...]
    priority: int


@dataclass(frozen=True, slots=True)
class Defaults:
    """The values that policies supply for one pool, before its own spec."""

    values: Fields
    """By field; also what the next pass holds on to when a tie appears."""
    sources: dict[str, str]
    """The policy that each value came from; fields held through a tie are not in it."""
    ties: tuple[Tie, ...]


def policy_defaults(policies: Sequence[PolicyObject], held: Fields) -> Defaults:
    """Return the defaults that `policies` (highest priority first) give, `held` breaking ties."""
    asked = [(one, live_fields(one.spec.defaults)) for one in policies if one.spec.defaults]
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    ties: list[Tie] = []
    for field in sorted({name for _, fields in asked for name in fields}):
        wishes = [(one, fields[field]) for one, fields in asked if field in fields]
        tie = _tie(field, wishes)
        if tie is not None:
            ties.append(tie)
            wishes = [(one, value) for one, value in wishes if priority(one) < tie.priority]
        if tie is not None and field in held:
            values[field] = held[field]
        elif wishes and _tie(field, wishes) is None:
            values[field], sources[field] = wishes[0][1], wishes[0][0].name
    return Defaults(values, sources, tuple(ties))


def _tie(field: str, wishes: Sequence[tuple[PolicyObject, Value]]) -> Tie | None:
    """Return the tie among the highest priority's wishes, if they differ."""
    if not wishes:
        return None
    rank, top = next(groupby(wishes, key=lambda wish: priority(wish[0])))
    highest = list(top)
    if len({value for _, value in highest}) == 1:
        return None
    return Tie(field, tuple(one.name for one, _ in highest), rank)
