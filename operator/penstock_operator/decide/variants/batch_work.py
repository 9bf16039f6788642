"""`with_batch_work`: the replicas that batch work adds to a mix, after the decision on it. Pure.

What the target leaves serves lines first. The cheapest replicas serve the rest, or few and large ones where
`spec.batchWork.maxReplicas` permits no more. Lines have no objective, so a replica serves them with its whole capacity; but
requests come to its variant too, so one that misses the objective, or that was never measured, gets none.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock_operator.decide.scaling.batch_work import LEAST_CAPACITY, MAX_REPLICAS, BatchDemand
from penstock_operator.decide.scaling.law import BatchWorkPlan
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.decide.variants.decision import (
    MixDecision,
    MixState,
    VariantInput,
    bounded,
    limited,
)
from penstock_operator.decide.variants.exchange import cost_of_capacity
from penstock_operator.decide.variants.mix import VariantOffer, mix_within


def with_batch_work(
    decided: MixDecision,
    batch: BatchDemand | None,
    state: MixState,
    variants: Sequence[VariantInput],
    settings: LawSettings,
) -> MixDecision:
    """Return the decision with the replicas for batch work; unchanged while no variant is known to meet the objective.

    A count is never lowered. `state` is the one after the decision.
    """
    able = [
        (each, offer._replace(capacity=capacity))
        for each, offer in zip(variants, decided.offers, strict=True)
        if (capacity := state.capacities.get(each.name, 0.0)) >= LEAST_CAPACITY
    ]
    if batch is None or not able:
        return decided
    free = [offer for _, offer in able]
    target = decided.target
    rest = max(batch.rate - _left(decided, free), 0.0)
    most = min(batch.most, settings.max_replicas - sum(target.values()))
    above = {each.name: max(each.running - target[each.name], 0) for each in variants}

    def added(offers: Sequence[VariantOffer]) -> dict[str, int]:
        """Return the replicas above the target."""
        if most <= 0:
            return {}
        beyond = [
            offer._replace(least=0, most=max(offer.most - target[offer.name], 0))
            for offer in offers
        ]
        counts = mix_within(most, rest, beyond, above).counts
        return bounded(beyond, counts, replace(settings, min_replicas=0, max_replicas=most))

    present = added([limited(each, offer) for each, offer in able])
    goal = {name: count + present.get(name, 0) for name, count in target.items()}
    wanted = added(free) if any(each.stuck is not None for each, _ in able) else present
    counts = {
        each.name: max(
            decided.counts[each.name],
            goal[each.name],
            _recovering(each, target[each.name] + wanted.get(each.name, 0)),
        )
        for each in variants
    }
    cheapest = min(free, key=cost_of_capacity)
    replicas = min(batch.rate / (cheapest.capacity or 1.0), MAX_REPLICAS)
    return decided._replace(
        counts=counts,
        target=goal,
        batch={name: count - decided.counts[name] for name, count in counts.items()},
        batch_work=BatchWorkPlan(batch.lines_left, batch.rate, replicas, sum(present.values())),
    )


def _left(decided: MixDecision, able: Sequence[VariantOffer]) -> float:
    """Return the rows a second that the target leaves: its capacity times the share that the demand does not take."""
    target = decided.target
    within = sum(target[offer.name] * (offer.capacity or 0.0) for offer in decided.offers)
    whole = sum(target[offer.name] * (offer.capacity or 0.0) for offer in able)
    if decided.demand <= 0:
        return whole
    return whole * max(1 - decided.demand / within, 0.0) if within > 0 else 0.0


def _recovering(variant: VariantInput, wanted: int) -> int:
    """Return one replica more than the pods of a variant that gets no more, if more are wanted; it shows when it recovers."""
    if variant.stuck is None or wanted <= variant.stuck:
        return 0
    return min(variant.running, variant.stuck + 1)
