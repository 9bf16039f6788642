"""`as_one_pool`: a pool of unlike replicas as the control law sees it. Pure.

The law counts in replicas of one variant, the reference. A replica of another variant weighs its capacity over the
reference's. The law reads the demand, the queues and the late requests of all pods; unevenness and imbalance from the rate of
each pod over its weight; curve, batch times, duty, cap and memory bound from the reference's pods only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, floor

from penstock_operator.decide.scaling.law import LawInput, LawPod
from penstock_operator.decide.variants.capacity import Capacities, Variant

ROUNDING = 1e-6
CHANGE = 2.0
"""Rows a second of another variant over the reference's, from which on it becomes the reference."""


def reference_variant(
    before: str | None, variants: Sequence[Variant], capacities: Capacities
) -> str | None:
    """Return the variant that the law counts in: the one whose Ready pods serve most, since its predictions and its measured lateness are then of the same pods.

    The one before stays until another one serves `CHANGE` times as much. None before a Ready pod is measured.
    """
    serving = {
        variant.name: len(variant.ready) * known.rows_per_second
        for variant in variants
        if (known := capacities.get(variant.name)) is not None
    }
    name = max(serving, key=lambda name: (serving[name], name), default=None)
    if name is None or not serving[name]:
        return None
    return before if before in serving and CHANGE * serving[before] >= serving[name] else name


def weights(
    reference: str | None, variants: Sequence[Variant], capacities: Capacities
) -> Mapping[str, float]:
    """Return the capacity of a replica of each variant over the reference's; 1 where one of them is unknown."""
    base = None if reference is None else capacities[reference].rows_per_second
    return {
        variant.name: known.rows_per_second / base
        if base and (known := capacities.get(variant.name)) is not None
        else 1.0
        for variant in variants
    }


def as_one_pool(
    observed: LawInput,
    reference: str | None,
    variants: Sequence[Variant],
    capacities: Capacities,
    count: int,
) -> LawInput:
    """Return the law's input; `observed` has the signals of all pods and the reference's cap, `count` is in reference replicas."""
    weight = weights(reference, variants, capacities)
    pods = tuple(
        _weighted(pod, weight[variant.name], is_reference=reference in {None, variant.name})
        for variant in variants
        for pod in variant.pods
    )
    least = sum(weight[variant.name] * variant.least for variant in variants)
    most = sum(weight[variant.name] * variant.most for variant in variants)
    low = max(floor(least + ROUNDING), min(observed.settings.min_replicas, 1))
    settings = replace(
        observed.settings, min_replicas=low, max_replicas=max(ceil(most - ROUNDING), low)
    )
    return observed._replace(
        settings=settings,
        pods=pods,
        replicas=count,
    )


def reference_count(
    variants: Sequence[Variant], capacities: Capacities, weight: Mapping[str, float]
) -> int:
    """Return the present replicas in replicas of the reference, rounded down; unmeasured ones count only if all are."""
    known = [variant for variant in variants if variant.name in capacities] or list(variants)
    count = sum(weight[variant.name] * variant.replicas for variant in known)
    return max(floor(count + ROUNDING), min(ceil(count), 1))


def _weighted(pod: LawPod, weight: float, *, is_reference: bool) -> LawPod:
    if is_reference:
        return pod._replace(weight=weight)
    return pod._replace(weight=max(weight, ROUNDING), reference=False, acknowledged=True)
