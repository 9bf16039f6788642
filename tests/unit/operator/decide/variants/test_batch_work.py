"""Batch work adds replicas to a mix: what the mix leaves serves lines first, the cheapest replicas the rest, within the budget."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_operator.decide.scaling.batch_work import BatchDemand, batch_step
from penstock_operator.decide.scaling.capacity_at_objective.replicas import UTILIZATION
from penstock_operator.decide.scaling.law import (
    BatchWorkPlan,
    Decision,
    LawObservations,
    ReplicaDemand,
)
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.decide.variants.batch_work import with_batch_work
from penstock_operator.decide.variants.decision import (
    MixDecision,
    MixState,
    VariantInput,
    bounded,
)
from penstock_operator.decide.variants.mix import VariantOffer, cheapest_mix
from penstock_operator.observed import BatchLoad
from penstock_operator.variants import NO_FIGURES
from tests.unit.operator.decide.scaling.properties.values import law_settings
from tests.unit.operator.decide.world import known

SETTINGS = law_settings(min_replicas=1, max_replicas=60)
LARGE = VariantOffer("large", 100.0, 4.0, 0, 20)
SMALL = VariantOffer("small", 10.0, 0.3, 0, 20)
OFFERS = st.lists(
    st.builds(
        VariantOffer,
        st.just(""),
        st.none() | st.just(0.0) | st.floats(0.1, 1e4),
        st.none() | st.floats(0.01, 100.0),
        st.just(0),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=4,
).map(lambda offers: [offer._replace(name=f"v{at}") for at, offer in enumerate(offers)])
RATES = st.floats(0, 1e5)


def filled(  # noqa: PLR0917
    rate: float,
    demand: float,
    offers: Sequence[VariantOffer] = (LARGE, SMALL),
    most: int = 5,
    stuck: int | None = None,
    settings: LawSettings = SETTINGS,
) -> tuple[MixDecision, MixDecision]:
    """Return the cheapest mix for `demand` without and with batch work; `stuck` are the pods of a last variant that gets no more."""
    inputs = [VariantInput(each.name, NO_FIGURES, 0, each.most, 0) for each in offers]
    if stuck is not None:
        inputs[-1] = inputs[-1]._replace(stuck=stuck, running=stuck + 1)
    target = bounded(offers, cheapest_mix(demand, offers, {}).counts, settings)
    mix = cheapest_mix(demand, offers, {})
    before = MixDecision(dict(target), target, demand, mix, tuple(offers))
    state = MixState({each.name: each.capacity for each in offers if each.capacity is not None})
    batch = BatchDemand(1000, rate, most)
    return before, with_batch_work(before, batch, state, inputs, settings)


def test_lines_take_what_the_mix_leaves_before_any_replica_is_added() -> None:
    before, after = filled(4.0, demand=5.0)
    assert before.counts == after.counts == {"large": 0, "small": 1}
    assert known(after.batch_work) == BatchWorkPlan(1000, rate=4.0, replicas=0.4, added=0)
    _, more = filled(6.0, demand=5.0)
    assert more.counts == more.target == {"large": 0, "small": 2}
    assert more.batch == {"large": 0, "small": 1}


def test_the_cheapest_replicas_serve_the_rest() -> None:
    before, after = filled(25.0, demand=10.0)
    assert (before.counts, after.counts) == ({"large": 0, "small": 1}, {"large": 0, "small": 4})
    assert known(after.batch_work).added == 3


def test_few_large_replicas_serve_what_the_budget_of_small_ones_cannot() -> None:
    assert filled(150.0, demand=10.0, most=2)[1].counts == {"large": 2, "small": 1}
    assert filled(1e6, demand=10.0, most=2)[1].counts == {"large": 2, "small": 1}


def test_nothing_is_added_without_a_budget_or_at_the_maximum_of_the_pool() -> None:
    for _, after in (
        filled(1e6, demand=10.0, most=0),
        filled(1e6, demand=10.0, settings=replace(SETTINGS, max_replicas=1)),
    ):
        assert after.counts == {"large": 0, "small": 1}
        assert known(after.batch_work).added == 0


@pytest.mark.parametrize("capacity", [None, 0.0])
def test_a_variant_that_is_not_known_to_meet_the_objective_gets_none(
    capacity: float | None,
) -> None:
    cheap = VariantOffer("cheap", capacity, 0.01, 0, 20)
    assert filled(30.0, 10.0, [SMALL, cheap._replace(most=0)])[1].counts == {"small": 4, "cheap": 0}
    before, after = filled(30.0, 10.0, [cheap])
    assert after is before


def test_what_a_variant_without_more_pods_cannot_serve_another_does() -> None:
    _, after = filled(25.0, demand=10.0, stuck=2)
    assert after.target == {"large": 1, "small": 1}
    assert after.counts == {"large": 1, "small": 3}, "one more shows when it recovers"
    assert after.batch == {"large": 1, "small": 2}
    _, enough = filled(5.0, demand=10.0, stuck=2)
    assert enough.counts == {"large": 0, "small": 2}


@given(RATES, RATES, OFFERS, st.integers(0, 30))
def test_any_batch_work_keeps_every_count_and_the_bounds(
    rate: float, demand: float, offers: list[VariantOffer], most: int
) -> None:
    before, after = filled(rate, demand, offers, most)
    added = {name: count - before.counts[name] for name, count in after.counts.items()}
    assert min(added.values()) >= 0
    total = sum(before.counts.values())
    assert sum(added.values()) <= max(min(most, SETTINGS.max_replicas - total), 0)
    assert (after.mix, after.demand) == (before.mix, before.demand)
    for offer in offers:
        assert added[offer.name] == 0 or after.counts[offer.name] <= offer.most
        assert added[offer.name] == 0 or offer.capacity


@given(RATES, RATES, OFFERS, RATES)
def test_more_batch_work_never_takes_capacity_away(
    rate: float, demand: float, offers: list[VariantOffer], more: float
) -> None:
    def served(decided: MixDecision) -> float:
        return sum((offer.capacity or 0.0) * decided.counts[offer.name] for offer in offers)

    before, after = (filled(each, demand, offers, 60)[1] for each in (rate, rate + more))
    if served(after) < served(before):  # a cheaper cover of more rows has less to spare
        assert served(after) >= (demand + rate + more) * (1 - 1e-5)


@given(st.integers(0, 10**6), st.floats(0, 1e3), st.floats(1.0, 1e3), st.integers(0, 20))
def test_a_single_variant_gets_what_a_pool_without_variants_does(
    lines: int, need: float, each: float, most: int
) -> None:
    law, load = replace(SETTINGS, max_replicas=2000), (BatchLoad(lines, 0.0, 3600.0),)
    offer = VariantOffer("only", UTILIZATION * each, 1.0, 0, 2000)
    demand = need * UTILIZATION * each
    before, after = filled(lines / 3600.0, demand, [offer], most, settings=law)
    count = before.counts["only"]
    seen = LawObservations(*[None] * 8)._replace(capacity_per_replica=each)
    alone = Decision(1, count, "", "", seen, metrics_available=True)
    alone = alone._replace(demands=(ReplicaDemand("Forecast", need),))
    expected = batch_step(alone, BatchWorkSpec(max_replicas=most), law, load, 0.0)
    assert after.counts["only"] == expected.replicas
    assert known(after.batch_work).replicas == pytest.approx(known(expected.batch_work).replicas)
