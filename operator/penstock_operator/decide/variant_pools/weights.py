"""Weights of the variants' pods at the gateway: in proportion to what one replica serves within the objective.

The Service has them in an annotation, which the gateway reads. They stay while every one is within `DEAD_BAND` of its
measured value, so that noise of the capacities changes nothing.
"""

from collections.abc import Mapping

from penstock_api import names

TOP = 100
"""Weight of the variant with the greatest capacity."""
DEAD_BAND = 0.1


def weights(capacities: Mapping[str, float], variants: tuple[str, ...]) -> dict[str, int]:
    """Return the weight of each variant, 1 to 100; one that has not been measured has the lowest. Empty if none has been."""
    known = {name: capacities[name] for name in variants if capacities.get(name)}
    if not known:
        return {}
    greatest, least = max(known.values()), min(known.values())
    return {
        name: max(round(TOP * known.get(name, least) / greatest), 1) for name in sorted(variants)
    }


def settled_weights(new: Mapping[str, int], live: Mapping[str, str]) -> dict[str, int]:
    """Return `new`, or the weights in the annotations of the live Service if they are still near."""
    before = names.variant_weights(live.get(names.ANNOTATION_GATEWAY_WEIGHTS, ""))
    near = before.keys() == new.keys() and all(
        abs(before[name] - weight) <= max(DEAD_BAND * weight, 1) for name, weight in new.items()
    )
    return dict(before if near else new)


def as_annotation(given: Mapping[str, int]) -> str:
    """Return the weights as `a100=100,cpu=12`."""
    return ",".join(f"{name}={weight}" for name, weight in sorted(given.items()))
