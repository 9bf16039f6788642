"""The worked example of docs/concepts/control-loop.md is what the law computes for the pool that the page describes."""

from dataclasses import replace
from functools import cache

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import (
    SPARE,
    max_batch_seconds,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import percent
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import _cost
from penstock_operator.decide.scaling.capacity_at_objective.law import (
    TICK_SECONDS,
    CapacityAtObjective,
)
from penstock_operator.decide.scaling.capacity_at_objective.observations import (
    late_share,
    observe_tick,
)
from penstock_operator.decide.scaling.law import Decision
from tests.support.pages.blocks import DOCS
from tests.unit.operator.decide.scaling.world import SETTINGS, World

TEXT = " ".join((DOCS / "concepts" / "control-loop.md").read_text(encoding="utf-8").split())
SURGE = 600
"""Second from which on 450 rows/s arrive instead of 300."""
COUNTS = (4.57, 5.14, 6.0, 7.0)
SECONDS = (5, 10, 20, 60, 300)
"""Seconds after the surge, of the rows of the second table."""


def pool() -> World:
    """Return the page's pool: 1,000 ms at 99 percent, t(b) = 100 + 10 b ms, starts of 60 s, even arrivals."""
    settings = replace(SETTINGS, max_replicas=20, max_percent_per_minute=25)
    return World(
        settings=settings, a=0.1, c=0.01, rate=300.0, replicas=5, cap=32, cold_start=60.0,
        law=CapacityAtObjective(), warms_up=True,
    )  # fmt: skip


@cache
def story() -> list[tuple[int, Decision]]:
    """Return (Ready replicas, decision) of every tick, from the first on."""
    world, known = pool(), []
    for second in range(0, SURGE + SECONDS[-1], 5):
        world.rate = 300.0 if second < SURGE else 450.0
        known.append((len(world.run(TICK_SECONDS).ready), world.last))
    return known


def at(second: int) -> tuple[int, Decision]:
    return story()[second // 5 - 1]


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def test_the_cap_and_the_capacity_of_the_page_follow_from_its_curve() -> None:
    observations = at(300)[1].observations
    assert observations.planned_cap == 34
    assert observations.capacity_per_replica is not None
    assert f"34 / 0.44 = {observations.capacity_per_replica:.1f} rows/s" in TEXT
    settings = pool().settings
    longest = max_batch_seconds(settings, None)
    assert longest is not None
    assert f"/ 2 = {1000 * SPARE * longest:.1f} ms" in TEXT


def test_the_costs_of_the_page_are_those_that_the_law_compares() -> None:
    world = pool().run(300)
    observed, cap, state = world.observed(), world.last.observations.planned_cap, world.state
    tick = observe_tick(state, observed, world.now)
    assert tick.model is not None
    assert cap is not None
    each, late = tick.model.capacity(cap), late_share(state, tick, tick.model, cap)
    assert each is not None
    assert late is not None
    ahead = forecast.outlook(state.forecaster, tick.startup_seconds + TICK_SECONDS)
    demands = [(chance, demand / each) for chance, demand in forecast.likely_demands(ahead)]
    assert f"up to {100 * max(demand * each / ahead.expected - 1 for _, demand in demands):.0f} % higher" in TEXT  # fmt: skip
    price = state.lateness.lateness_price
    for count in COUNTS:
        shares = late(count)
        late_rows = each * sum(chance * demand * shares[percent(demand / count)] for chance, demand in demands)  # fmt: skip
        assert count + price * late_rows / each == pytest.approx(_cost(demands, price, late, count))
        used, cost = 100 * ahead.expected / (count * each), count + price * late_rows / each
        shown = row(f"{count:.2f}", f"{used:.0f} %", f"{late_rows:.2f}", f"{cost:.2f}")
        assert shown in TEXT, shown
    assert f"{world.last.demands[0].replicas:.2f} is the cheapest of all" in TEXT
    assert f"so the pool has {world.last.replicas} replicas" in TEXT
    assert f"which fill {ahead.expected / each:.2f} replicas" in TEXT
    assert f"the price, {price:.0f}," in TEXT


def test_the_decisions_of_the_page_are_those_of_the_law() -> None:
    for second in SECONDS:
        ready, decision = at(SURGE + second)
        seen = decision.observations
        assert seen.forecast_rows_per_second is not None
        assert seen.utilization_target is not None
        shown = row(
            f"{second} s", f"{seen.forecast_rows_per_second:.0f}",
            f"{100 * seen.utilization_target:.0f} %", f"{decision.demands[0].replicas:.2f}",
            decision.replicas, ready, f"`{decision.replicas_term}`",
        )  # fmt: skip
        assert shown in TEXT, shown
