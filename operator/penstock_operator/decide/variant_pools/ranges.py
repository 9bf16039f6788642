"""The range of each variant's count: minReplicas and maxReplicas, within the bound of policies on the sum. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock_api.types.fields import MAX_REPLICAS
from penstock_api.types.status import BoundedField
from penstock_api.types.variants import VariantSpec
from penstock_operator.decide.spec.bounds import binding
from penstock_operator.observed import PolicyObject


class ReplicaRange(NamedTuple):
    """Bounds of a variant's count."""

    least: int
    most: int


def replica_ranges(
    variants: Sequence[VariantSpec], bound: int | None = None
) -> dict[str, ReplicaRange]:
    """Return the range of each variant; a `bound` on the sum lowers minimums from the end of the list."""
    ranges, left = {}, MAX_REPLICAS * len(variants) if bound is None else bound
    for each in variants:
        limits = (each.max_replicas, bound, MAX_REPLICAS)
        least = min(each.min_replicas or 0, left)
        ranges[each.name] = ReplicaRange(least, min(most for most in limits if most is not None))
        left -= least
    return ranges


def lowered_minimums(
    variants: Sequence[VariantSpec], policies: Sequence[PolicyObject]
) -> tuple[BoundedField, ...]:
    """Return the minReplicas that the bound of a policy lowers."""
    tightest = binding(policies, "replicas")
    if tightest is None:
        return ()
    bound, policy = tightest
    ranges = replica_ranges(variants, bound)
    return tuple(
        BoundedField(
            field=f"spec.variants[{each.name}].minReplicas",
            asked=str(each.min_replicas),
            granted=str(ranges[each.name].least),
            policy=policy,
        )
        for each in variants
        if ranges[each.name].least < (each.min_replicas or 0)
    )


def in_order(
    variants: Sequence[VariantSpec], total: int, bound: int | None = None
) -> dict[str, int]:
    """Return the counts of `total` replicas: every minReplicas, and the rest in the order of the list up to maxReplicas."""
    ranges = replica_ranges(variants, bound)
    counts = {name: each.least for name, each in ranges.items()}
    left = total - sum(counts.values())
    for name, each in ranges.items():
        added = max(min(left, each.most - counts[name]), 0)
        counts[name] += added
        left -= added
    return counts


def kept_within(
    counts: Mapping[str, int], variants: Sequence[VariantSpec], bound: int | None
) -> dict[str, int]:
    """Return present counts within the ranges and the bound; what exceeds it is taken from the end of the list."""
    ranges = replica_ranges(variants, bound)
    kept = {
        name: max(min(counts.get(name, 0), each.most), each.least) for name, each in ranges.items()
    }
    surplus = 0 if bound is None else sum(kept.values()) - bound
    for name, each in reversed(ranges.items()):
        removed = max(min(surplus, kept[name] - each.least), 0)
        kept[name] -= removed
        surplus -= removed
    return kept
