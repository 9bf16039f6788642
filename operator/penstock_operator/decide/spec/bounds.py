"""Upper bounds that policies set on live fields: the tightest of all matching policies applies, so ties loosen nothing."""

from collections.abc import Sequence

from penstock_api.types.policy import PolicyBounds
from penstock_api.types.status import BoundedField
from penstock_operator.decide.spec import live_fields
from penstock_operator.decide.spec.live_fields import Fields, Value
from penstock_operator.observed import PolicyObject

_BOUNDS = {
    "replicas": ("replicas", live_fields.MIN_REPLICAS, live_fields.MAX_REPLICAS),
    "batch_size": (live_fields.SIZE_MIN, live_fields.SIZE_MAX),
    "queue_depth": (live_fields.MAX_QUEUE_DEPTH,),
    "weight": (live_fields.WEIGHT,),
}
"""Fields that each bound lowers."""


def _bounds(policies: Sequence[PolicyObject], name: str) -> list[tuple[int, str]]:
    """Return (bound, policy) of every policy that sets the bound `name`."""
    bounds = [(policy.spec.bounds or PolicyBounds(), policy.name) for policy in policies]
    return [
        (bound.max, policy)
        for fields, policy in bounds
        if (bound := getattr(fields, name)) is not None
    ]


def tightest(policies: Sequence[PolicyObject], name: str) -> int | None:
    """Return the smallest bound `name`; None where no policy sets it."""
    least = binding(policies, name)
    return None if least is None else least[0]


def binding(policies: Sequence[PolicyObject], name: str) -> tuple[int, str] | None:
    """Return the smallest bound `name`, and the policy that sets it."""
    return min(_bounds(policies, name), default=None)


def lowered(
    requested: Fields, policies: Sequence[PolicyObject]
) -> tuple[dict[str, Value], tuple[BoundedField, ...]]:
    """Return `requested` within the bounds, and each lowered field with its policy."""
    granted, bounded = dict(requested), []
    for name, paths in _BOUNDS.items():
        bounds = _bounds(policies, name)
        for field in paths if bounds else ():
            bound, policy = min(bounds)
            value = int(requested[field])
            granted[field] = min(value, bound)
            if value > bound:
                bounded.append(
                    BoundedField(
                        field=f"spec.{field}", asked=str(value), granted=str(bound), policy=policy
                    )
                )
    return granted, tuple(bounded)
