"""Where a router spreads requests over the pods, the law plans with one queue for all pods."""

import json
from dataclasses import replace
from typing import Any

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.latency.pooled import PooledQueue
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import (
    TrafficShape,
    late_share,
)
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    INITIAL_PRICE,
    reprice,
)
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    from_checkpoint,
    to_checkpoint,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import RequestSpread
from tests.unit.operator.decide.scaling.test_checkpoint import law_state
from tests.unit.operator.decide.scaling.world import SETTINGS, World
from tests.unit.operator.decide.test_gateway import INSTALLED, RoutedWorld
from tests.unit.operator.decide.world import pod
from tests.unit.operator.decide.world import pool as pool_of

CONNECTION, LEAST = RequestSpread.BY_CONNECTION, RequestSpread.LEAST_REQUEST
ROUTED = [LEAST, RequestSpread.CENTRAL_QUEUE]


def pool(spread: RequestSpread, rate: float, replicas: int) -> World:
    settings = replace(SETTINGS, max_replicas=20, max_percent_per_minute=25)
    return World(
        settings=settings, a=0.1, c=0.01, seed=3, rate=rate, cap=32, replicas=replicas,
        law=CapacityAtObjective(), warms_up=True, spread=spread,
    )  # fmt: skip


def state_of(world: World) -> CapacityState:
    assert isinstance(world.state, CapacityState)
    return world.state


def spread_of(world: World) -> RequestSpread | None:
    outlook = world.last.outlook
    return None if outlook is None or outlook.traffic is None else outlook.traffic.spread


def queue(**changed: Any) -> PooledQueue:
    values: dict[str, Any] = {
        "spread": LEAST, "rows": 256.0, "intercept": 0.24, "dispersion": 1.0, "limit": 2.2,
    }  # fmt: skip
    return PooledQueue(**(values | changed))


@pytest.mark.parametrize("spread", ROUTED)
def test_lateness_rises_with_utilization_and_falls_with_pods(spread: RequestSpread) -> None:
    shares = [queue(spread=spread)[percent] for percent in range(130)]
    assert shares == sorted(shares)
    assert shares[90] < 1e-4
    assert set(shares[100:]) == {1.0}
    assert queue(spread=spread, rows=64.0)[95] > queue(spread=spread)[95]
    assert queue(spread=spread, dispersion=9.0)[95] > queue(spread=spread)[95]


def test_a_central_queue_saves_the_wait_for_the_running_batch() -> None:
    central = queue(spread=RequestSpread.CENTRAL_QUEUE)
    assert central.p99(0.9) < queue().p99(0.9) / 1.5
    assert central[98] < queue()[98]


def test_the_lower_of_two_upper_bounds_counts() -> None:
    alone = late_share(TrafficShape(0.24, 1 / 32, 0.0), 2.2)
    assert queue(dispersion=1e3)[60] > alone[60]
    assert queue(dispersion=1e3, alone=alone)[60] == alone[60]
    assert queue(alone=alone)[60] == queue()[60] < alone[60]


@pytest.mark.parametrize("rho", [0.8, 0.9, 0.99])
def test_lateness_and_percentile_agree(rho: float) -> None:
    bursty = queue(dispersion=100.0)
    assert replace(bursty, limit=bursty.p99(rho)).at(rho) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("spread", ROUTED)
def test_a_routed_pool_serves_steady_demand_with_busier_replicas(spread: RequestSpread) -> None:
    alone, shared = (pool(each, 500.0, 12).run(1800) for each in (CONNECTION, spread))
    assert shared.replicas < alone.replicas
    assert 500 / (shared.replicas * 76.2) <= 0.97


def test_a_change_of_routing_takes_effect_at_the_next_tick() -> None:
    world = pool(LEAST, 300.0, 8).run(1200)
    assert spread_of(world) is LEAST
    learned = reprice(state_of(world).lateness, -100.0)
    world.state = state_of(world)._replace(lateness=learned)
    world.spread = CONNECTION
    world.run(5)
    assert spread_of(world) is CONNECTION
    assert state_of(world).unevenness > 0
    assert state_of(world).lateness.lateness_price == pytest.approx(INITIAL_PRICE, rel=0.01)


def test_a_router_leaves_the_measured_unevenness_of_connections() -> None:
    world = pool(CONNECTION, 300.0, 8).run(300)
    world.state = state_of(world)._replace(unevenness=0.01)
    world.spread = LEAST
    world.run(600)
    assert state_of(world).unevenness == 0.01


@pytest.mark.parametrize(("now", "kept"), [(LEAST, True), (CONNECTION, False)])
def test_a_checkpoint_has_the_price_of_its_routing(now: RequestSpread, kept: bool) -> None:
    world = pool(LEAST, 300.0, 8).run(1200)
    world.state = state_of(world)._replace(
        lateness=state_of(world).lateness._replace(lateness_price=20.0)
    )
    data = json.loads(json.dumps(to_checkpoint(world.state)))
    restored = from_checkpoint(CapacityAtObjective().initial(world.now), data, world.now, world.now)
    assert (restored.spread, restored.lateness.lateness_price) == (LEAST, 20.0)
    world.state, world.spread = restored, now
    world.run(5)
    price = state_of(world).lateness.lateness_price
    assert price == pytest.approx(20.0 if kept else INITIAL_PRICE, rel=0.01)


def test_the_operator_passes_the_live_route() -> None:
    scaling = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 4}
    spec: dict[str, Any] = {
        "scaling": scaling,
        "objectives": [{"metric": "RequestLatency", "milliseconds": 1000}],
    }
    world = RoutedWorld(pool=pool_of(routing={"mode": "Service"}, **spec), config=INSTALLED)
    world.settle()
    world.pods = (pod("chat-1", revision=world.revision),)
    world.settle()
    assert law_state(world).spread is CONNECTION
    world.edit_spec(routing={"mode": "Gateway"})
    world.settle()
    assert law_state(world).spread is CONNECTION, "no listener is open yet"
    world.listening = True
    world.settle()
    world.settle()
    assert law_state(world).spread is LEAST
