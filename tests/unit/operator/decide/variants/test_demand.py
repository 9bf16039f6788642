"""The one demand of a pool with variants, and the capacity that serves it within the objective."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import INITIAL_PRICE
from penstock_operator.decide.scaling.capacity_at_objective.replicas import UTILIZATION
from penstock_operator.decide.variants.demand import (
    INITIAL_POOLED_PRICE,
    TICK_SECONDS,
    PooledDemand,
    PooledState,
    PoolTerms,
    fluctuating,
    pooled_demand,
)
from penstock_operator.variants import BatchShape, VariantLoad
from tests.unit.operator.decide.scaling.properties.values import law_settings

SETTINGS = law_settings(size_max=32)
FAST = BatchShape(cap=32, seconds=0.19, tail_ratio=1.05, intercept=0.32)
SLOW = BatchShape(cap=4, seconds=0.42, tail_ratio=1.05, intercept=0.43)
BOTH: Mapping[str, BatchShape | None] = {"fast": FAST, "slow": SLOW}
TERMS = PoolTerms(SETTINGS, startup_seconds=60.0, routed=True, free=True)
TICKS = 120
BEGUN = 1000.0


def load(time: float, rate: float, **fields: Any) -> VariantLoad:
    return VariantLoad(time, rate, rate, serving=200.0)._replace(**fields)


def after(
    *loads: Mapping[str, VariantLoad],
    terms: PoolTerms = TERMS,
    shapes: Mapping[str, BatchShape | None] = BOTH,
) -> tuple[PooledState, PooledDemand]:
    """Return state and demand after one tick for each of the loads."""
    state = PooledState()
    for tick, each in enumerate(loads):
        state, demand = pooled_demand(state, each, shapes, terms, BEGUN + 5.0 * tick)
    return state, demand


def steady(rate: float, noise: float = 0.0, **fields: Any) -> list[Mapping[str, VariantLoad]]:
    """Return the loads of a variant whose rate alternates around a mean."""
    return [
        {"fast": load(5.0 * tick, rate, **fields)._replace(newest=rate + noise * (-1) ** (tick // 2))}
        for tick in range(TICKS)
    ]  # fmt: skip


def test_slow_batches_need_more_capacity_than_fast_ones() -> None:
    _, demand = after(*steady(150.0, noise=30.0))
    assert demand.expected == pytest.approx(150.0, rel=0.02)
    assert 150.0 < demand.needs["fast"] < demand.needs["slow"] < 300.0


def test_bursts_need_capacity() -> None:
    _, calm = after(*steady(150.0, noise=5.0))
    _, bursts = after(*steady(150.0, noise=60.0))
    assert calm.needs["slow"] < 0.9 * bursts.needs["slow"]


@pytest.mark.parametrize("paused", [0.0, 0.1])
def test_a_pause_keeps_capacity_for_bursts_as_large_as_those_before(paused: float) -> None:
    bursts = [
        {"fast": load(5.0 * tick, 1000.0 if tick % 60 < 20 else paused)} for tick in range(3 * 60)
    ]
    _, demand = after(*bursts)
    assert demand.expected < 100.0
    assert 1000.0 < demand.needs["fast"] < 1100.0


def test_a_clock_that_steps_back_changes_no_dispersion() -> None:
    loads = steady(150.0, noise=30.0)
    state, _ = after(*loads)
    newest = {"fast": load(5.0 * TICKS, 150.0)}
    stepped, _ = pooled_demand(state, newest, BOTH, TERMS, BEGUN)
    assert stepped.dispersion == state.dispersion


def test_a_low_demand_needs_no_whole_replica_of_a_fast_variant() -> None:
    _, demand = after(*steady(4.0))
    assert 4.0 <= demand.needs["fast"] < 12.0
    assert 4.0 <= demand.needs["slow"] < 16.0


def test_the_need_does_not_depend_on_the_variants_that_serve() -> None:
    alone = steady(150.0, noise=30.0)
    split = [
        {
            name: tick["fast"]._replace(recent=part * 150.0, newest=part * tick["fast"].newest)
            for name, part in (("fast", 0.7), ("slow", 0.3))
        }
        for tick in alone
    ]
    together = [{"fast": tick["fast"]._replace(overlapping=True)} for tick in alone]
    assert after(*split)[1].needs == pytest.approx(after(*together)[1].needs)


def test_pods_with_queues_of_their_own_need_more_than_those_behind_a_gateway() -> None:
    uneven = steady(150.0, noise=30.0, dispersion=4.0, unevenness=0.01)
    _, routed = after(*uneven)
    _, apart = after(*uneven, terms=TERMS._replace(routed=False))
    assert apart.needs["slow"] > 1.2 * routed.needs["slow"]


def test_the_price_begins_as_that_of_the_law_without_a_gateway() -> None:
    state, _ = after(*steady(150.0)[:1], terms=TERMS._replace(routed=False))
    assert state.lateness.lateness_price == INITIAL_PRICE


def test_a_price_that_was_learned_with_another_way_to_spread_requests_does_not_apply() -> None:
    loads = [
        {"fast": load(5.0 * tick, 150.0, settled=750.0 * tick, on_time=600.0 * tick)}
        for tick in range(TICKS)
    ]
    state, _ = after(*loads)
    assert state.lateness.lateness_price > INITIAL_PRICE
    for routed, price in ((True, state.lateness.lateness_price), (False, INITIAL_PRICE)):
        terms = TERMS._replace(routed=routed)
        other, _ = pooled_demand(state, loads[-1], BOTH, terms, BEGUN + 5.0 * TICKS)
        assert other.lateness.lateness_price == price


def test_late_requests_raise_the_price_and_the_need() -> None:
    calm, late = (
        [{"fast": each["fast"]._replace(settled=750.0 * tick, on_time=share * 750.0 * tick)}
         for tick, each in enumerate(steady(150.0, noise=30.0))]
        for share in (1.0, 0.9)
    )  # fmt: skip
    lower, higher = after(*calm), after(*late)
    prices = [state.lateness.lateness_price for state, _ in (lower, higher)]
    assert prices[0] < INITIAL_POOLED_PRICE < prices[1]
    assert lower[1].needs["slow"] < higher[1].needs["slow"]
    short, _ = after(*late, terms=TERMS._replace(free=False))
    assert short.lateness.lateness_price == INITIAL_POOLED_PRICE


def test_requests_from_before_a_variant_was_seen_do_not_count() -> None:
    loads = steady(150.0)
    loads[-1] = {**loads[-1], "slow": load(5.0 * TICKS, 0.0, settled=1e6)}
    assert after(*loads)[0].lateness.lateness_price <= INITIAL_POOLED_PRICE


def test_a_backlog_needs_the_newest_rate() -> None:
    loads = steady(150.0)
    waits = loads[-1]["fast"]._replace(excess=400.0, newest=900.0)
    _, demand = after(*loads[:-1], {"fast": waits})
    assert demand.needs == {"fast": pytest.approx(900.0), "slow": pytest.approx(900.0)}


def test_the_users_own_targets_need_capacity() -> None:
    _, demand = after({"fast": load(0.0, 0.0, guarded=70.0), "slow": load(0.0, 0.0, guarded=30.0)})
    assert demand.needs == {"fast": 100.0, "slow": 100.0}


def test_without_an_objective_an_upper_quantile_of_the_demand_is_served() -> None:
    free = PoolTerms(law_settings(objective_milliseconds=None), 60.0, routed=True, free=True)
    _, demand = after(*steady(150.0), terms=free, shapes={"fast": None, "slow": None})
    assert demand.needs["fast"] == demand.needs["slow"] == pytest.approx(150.0, rel=0.1)


def test_an_old_measurement_is_no_news() -> None:
    state, demand = after(*steady(150.0))
    later, same = pooled_demand(
        state, {"fast": load(5.0 * (TICKS - 1), 900.0)}, BOTH, TERMS, BEGUN + 5.0 * TICKS
    )
    assert (later, same.expected) == (state, demand.expected)


@given(st.floats(1.0, 1e5), st.floats(1.0, 50.0))
def test_the_demand_of_a_tick_varies_by_the_dispersion(rate: float, dispersion: float) -> None:
    assume(TICK_SECONDS * rate > 2 * dispersion)
    demands = fluctuating([(1.0, rate)], dispersion, TICK_SECONDS)
    mean = sum(chance * demand for chance, demand in demands)
    variance = sum(chance * (demand - mean) ** 2 for chance, demand in demands)
    assert mean == pytest.approx(rate, rel=0.001)
    assert variance * TICK_SECONDS / mean == pytest.approx(dispersion, rel=0.03)


def test_bursts_last_as_long_as_the_scrapes_that_show_them() -> None:
    calm, burst = (
        [fluctuating([(1.0, 100.0)], dispersion, seconds) for seconds in (1.0, 5.0, 15.0)]
        for dispersion in (1.0, 31.0)
    )
    assert calm[0] == calm[1] == calm[2]
    assert burst[0] == burst[1] != burst[2]
    assert burst[1][-1][1] == pytest.approx(100.0 + 2 * sqrt(31.0 * 100.0 / 5.0))
    assert burst[2][-1][1] == pytest.approx(100.0 + 2 * sqrt(30.0 * 100.0 / 15.0 + 100.0 / 5.0))


@given(st.floats(0.01, 1e5), st.floats(0.0, 1.0), st.booleans())
def test_a_need_is_finite_and_at_least_the_demand(rate: float, noise: float, routed: bool) -> None:
    loads = steady(rate, noise=noise * rate)[:12]
    _, demand = after(*loads, terms=TERMS._replace(routed=routed))
    for need in demand.needs.values():
        assert demand.expected * (1 - 1e-9) <= need <= 100 * rate / UTILIZATION
