"""The policies' bounds on live fields: of all that match the tightest wins, so no tie can loosen anything."""

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
"""Which fields each bound lowers."""


def _bounds(policies: Sequence[PolicyObject], name: str) -> list[tuple[int, str]]:
    """Return (bound, policy) of every policy that sets the bound `name`."""
    bounds = [(one.spec.bounds or PolicyBounds(), one.name) for one in policies]
    return [(bound.max, who) for each, who in bounds if (bound := getattr(each, name)) is not None]


def tightest(policies: Sequence[PolicyObject], name: str) -> int | None:
    """Return the least of the bounds `name`, or None where no policy sets it."""
    return min((bound for bound, _ in _bounds(policies, name)), default=None)


def lowered(
    asked: Fields, policies: Sequence[PolicyObject], *, scales: bool
) -> tuple[dict[str, Value], tuple[BoundedField, ...]]:
    """Return `asked` within the bounds, and what was lowered by whom.

    Scaling's own fields are told of only where they act (`scales`).
    """
    granted, bounded = dict(asked), []
    for name, paths in _BOUNDS.items():
        bounds = _bounds(policies, name)
        for field in paths if bounds else ():
            most, policy = min(bounds)
            wish = int(asked[field])
            granted[field] = min(wish, most)
            if wish > most and (scales or not field.startswith("scaling.")):
                bounded.append(
                    BoundedField(
                        field=f"spec.{field}", asked=str(wish), granted=str(most), policy=policy
                    )
                )
    return granted, tuple(bounded)
