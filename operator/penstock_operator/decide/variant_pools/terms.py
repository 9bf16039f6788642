"""What the capacity and the price of a variant depend on: what was measured before an edit of it is dropped. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock_operator.decide.cost.prices import PriceList, UnknownPrice
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.decide.variants.decision import MixState
from penstock_operator.observed import VariantView


class VariantTerms(NamedTuple):
    """The terms of one variant."""

    capacity: tuple[object, ...]
    """Spec of its pool, without what does not change the capacity; objectives and batch sizes in force, which a policy may set."""
    price: tuple[object, ...]
    """Resources and placement of its pods, and the prices of policies."""


def variant_terms(
    pool: VariantView, spec: EffectiveSpec, prices: PriceList | UnknownPrice | None
) -> VariantTerms:
    """Return the terms of a variant; `spec` is that of the parent."""
    own, law = pool.pool.spec, spec.law
    unrelated = {"replicas": 0, "scaling": None, "weight": None}
    objectives = (
        law.objective_milliseconds,
        law.first_token_milliseconds,
        law.output_token_milliseconds,
        law.late,
    )
    sizes = (law.size_min, law.size_max, spec.max_batched_tokens)
    return VariantTerms(
        (own.model_copy(update=unrelated), *objectives, *sizes),
        (own.accelerator, own.parallelism, own.template, prices),
    )


def still_measured(
    mix: MixState, before: Mapping[str, VariantTerms], present: Mapping[str, VariantTerms]
) -> MixState:
    """Return the state without the capacities and prices of variants whose terms changed."""
    changed = [(name, before[name], terms) for name, terms in present.items() if name in before]
    remeasured = {name for name, old, new in changed if old.capacity != new.capacity}
    repriced = {name for name, old, new in changed if old.price != new.price}
    return mix._replace(
        capacities={name: each for name, each in mix.capacities.items() if name not in remeasured},
        shapes={name: each for name, each in mix.shapes.items() if name not in remeasured},
        prices={name: each for name, each in mix.prices.items() if name not in repriced},
    )
