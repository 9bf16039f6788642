"""A pool of unlike pods in simulated time: CapacityAtObjective and the cheapest mix."""

from dataclasses import replace

import pytest

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_simulator.arrivals import steps
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.scenario import ColdStarts, ImpossibleScenario, LineBatch, Routing
from penstock_simulator.variants.scenario import PoolVariant, VariantsScenario
from penstock_simulator.variants.simulation import (
    FixedMix,
    LawPolicy,
    MixMoment,
    VariantsSummary,
    simulate_variants,
)
from tests.unit.operator.decide.world import known
from tests.unit.simulator.scenarios import SURE, world

COLD = ColdStarts(median_seconds=20.0, sigma=0.0, failing_share=0.0)
LARGE = ServiceModel(0.06, 0.004, sigma=0.0, tail_share=0.0, overhead=0.0)
SMALL = ServiceModel(0.15, 0.04, sigma=0.0, tail_share=0.0, overhead=0.0)
HOPELESS = ServiceModel(0.6, 0.05, sigma=0.0, tail_share=0.0, overhead=0.0)


def pool(
    large: float, small: float, routing: Routing = Routing.LEAST_REQUEST, start: int = 1
) -> VariantsScenario:
    return VariantsScenario(
        replace(world(routing=routing), cold=SURE, warm_up_seconds=120.0),
        (
            PoolVariant("large", LARGE, large, start_replicas=start, cold=COLD),
            PoolVariant("small", SMALL, small, cold=COLD),
            PoolVariant("old", HOPELESS, 0.01, cold=COLD),
        ),
    )


def run(scenario: VariantsScenario) -> VariantsSummary:
    arrivals = steps([(60.0, 300.0), (15.0, 600.0)], seed=1)
    return simulate_variants(scenario, LawPolicy(scenario), arrivals)


def test_the_cheaper_variant_serves_once_it_is_measured() -> None:
    small_is_cheap = run(pool(large=10.0, small=0.5))
    assert small_is_cheap.summary.attains
    assert small_is_cheap.replica_hours["small"] > small_is_cheap.replica_hours["large"]
    large_is_cheap = run(pool(large=2.0, small=1.9))
    assert large_is_cheap.summary.attains
    assert large_is_cheap.replica_hours["large"] > 4 * large_is_cheap.replica_hours["small"]


def test_a_variant_that_misses_the_objective_is_measured_and_released() -> None:
    summary = run(pool(large=10.0, small=0.5))
    assert 0 < summary.replica_hours["old"] < 0.03


def test_the_cost_is_the_price_of_the_replica_hours() -> None:
    summary = run(pool(large=10.0, small=0.5))
    hours = summary.replica_hours
    by_hand = 10.0 * hours["large"] + 0.5 * hours["small"] + 0.01 * hours["old"]
    assert summary.cost == pytest.approx(by_hand)


def test_replicas_are_counted_for_a_frozen_cap() -> None:
    scenario = pool(large=2.0, small=1.9)
    frozen = LawPolicy(scenario, caps={"large": 2, "small": 1, "old": 1})
    arrivals = steps([(60.0, 900.0)], seed=1)  # 29 rows/s of a large replica at a cap of 2
    assert simulate_variants(scenario, frozen, arrivals).summary.attains


def test_a_router_splits_by_capacity_and_a_service_by_connections() -> None:
    counts = {"large": 1, "small": 3, "old": 0}
    fixed = FixedMix(MixMoment(counts, {"large": 32, "small": 7}, {"large": 170.0, "small": 16.0}))
    arrivals = steps([(100.0, 300.0)], seed=1)
    attained = {}
    for routing in (Routing.LEAST_REQUEST, Routing.CONNECTION):
        scenario = pool(10.0, 0.5, routing)
        large, small, old = scenario.variants
        scenario = replace(scenario, variants=(large, replace(small, start_replicas=3), old))
        attained[routing] = simulate_variants(scenario, fixed, arrivals).summary.attainment
    assert attained[Routing.LEAST_REQUEST] == 1.0
    assert attained[Routing.CONNECTION] < 0.6


def test_batch_work_gets_cheap_replicas_within_its_budget_and_requests_stay_on_time() -> None:
    batch = LineBatch(36_000, 300.0, 900.0)  # 60 rows/s, and a small replica serves 16
    plain = pool(large=10.0, small=0.5)
    filled = replace(plain, world=replace(plain.world, batches=(batch,)))
    budget = replace(filled, world=replace(filled.world, batch_work=BatchWorkSpec(max_replicas=6)))
    alone, without, within = run(plain), run(filled), run(budget)
    assert alone.batch_cost == 0.0
    assert known(without.summary.batch_work).in_time == 0
    assert known(within.summary.batch_work).in_time == 1
    assert within.summary.attains
    more = {
        name: hours - without.replica_hours[name] for name, hours in within.replica_hours.items()
    }
    assert more["small"] > 0.1 > more["large"]
    assert within.cost - without.cost < within.batch_cost < within.cost


def test_a_routing_without_weights_is_refused() -> None:
    with pytest.raises(ImpossibleScenario, match="use least-request or connection"):
        run(pool(1.0, 1.0, Routing.CENTRAL_QUEUE))
