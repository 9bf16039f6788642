"""The one decision on the replicas of all variants, which the operator and the simulator make."""

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.replicas import MIN_HOLD_SECONDS
from penstock_operator.decide.variants.decision import (
    MixDecision,
    MixState,
    VariantInput,
    decide_mix,
)
from penstock_operator.variants import BatchShape, VariantFigures, VariantLoad
from tests.unit.operator.decide.scaling.properties.values import law_settings

SETTINGS = law_settings(size_max=32, min_replicas=1, max_replicas=200)
FAST = BatchShape(cap=32, seconds=0.19, tail_ratio=1.05, intercept=0.32)
SLOW = BatchShape(cap=8, seconds=0.8, tail_ratio=1.05, intercept=0.43)
"""A batch of it takes most of the objective, 1 s, so that little time is left to wait."""
NEW = MixState({}, begun=0.0)
NOW = 1000.0


def fast(rate: float, running: int = 1, time: float = NOW, price: float = 4.0) -> VariantInput:
    load = VariantLoad(time, rate, rate, serving=170.0 * running)
    figures = VariantFigures(145.0, load if running else None, price, 60.0, FAST)
    return VariantInput("fast", figures, 0, 100, running, running)


def slow(running: int = 0, capacity: float | None = 8.0, shape: BatchShape | None = SLOW, price: float = 0.2) -> VariantInput:  # fmt: skip
    figures = VariantFigures(capacity, None, price, 60.0, shape)
    return VariantInput("slow", figures, 0, 100, running, running)


def decided(
    *variants: VariantInput, state: MixState = NEW, now: float = NOW, routed: bool = True
) -> tuple[MixState, MixDecision]:
    return decide_mix(state, variants, SETTINGS, routed=routed, now=now)


def test_a_low_demand_goes_to_a_slow_variant_that_is_cheaper() -> None:
    _, decision = decided(fast(4.0), slow())
    assert decision.target["fast"] == 0
    assert 1 <= decision.target["slow"] <= 2


def test_each_variant_serves_of_the_demand_what_its_own_batches_permit() -> None:
    state, only_slow = decided(fast(150.0), slow(price=0.1))
    _, only_fast = decided(fast(150.0, price=0.5), slow())
    needed = {name: steps[0][1] for name, steps in state.needs.items()}
    assert needed["fast"] < needed["slow"]
    assert 8.0 * only_slow.target["slow"] >= needed["slow"]
    assert 145.0 * only_fast.target["fast"] >= needed["fast"]
    assert only_slow.demand == only_fast.demand == pytest.approx(needed["fast"])


def test_a_need_falls_after_the_hold_for_a_new_variant_too() -> None:
    state, last = NEW, NOW + 15
    for now in (NOW, NOW + 5, NOW + 10, last):
        state, _ = decided(fast(300.0, running=3, time=now), slow(capacity=None, shape=None), state=state, now=now)  # fmt: skip
    for now in (last + 5 * tick for tick in range(1, 1 + int(MIN_HOLD_SECONDS / 5))):
        lower, stable = decided(fast(100.0, running=3, time=now), slow(), state=state, now=now)
        assert stable.demand == pytest.approx(state.needs["fast"][0][1])
        assert lower.needs["slow"][0][1] > lower.needs["fast"][0][1]
        state = lower
    now = last + 5 + MIN_HOLD_SECONDS
    _, released = decided(fast(100.0, running=3, time=now), slow(), state=state, now=now)
    assert released.demand < 0.9 * stable.demand


def test_a_need_falls_after_one_hold_although_the_clock_was_set_back() -> None:
    state, high = decided(fast(800.0, running=10))
    back = NOW - 900
    for tick in range(2 + int(MIN_HOLD_SECONDS / 5)):
        now = back + 5 * tick
        state, last = decided(fast(50.0, running=10, time=now), state=state, now=now)
        assert last.counts["fast"] == 10 or tick * 5 > MIN_HOLD_SECONDS
    assert last.counts["fast"] < min(10, high.target["fast"])
    assert len(state.ready) < 5


def priced(bound: float | None, template: float | None) -> VariantInput:
    given = slow(running=0 if bound is None else 2)
    return given._replace(figures=given.figures._replace(per_hour=bound, template_per_hour=template))  # fmt: skip


def test_a_variant_without_pods_has_the_price_of_those_that_it_had_last() -> None:
    _, new = decided(fast(4.0), priced(None, 0.1))
    state, _ = decided(fast(4.0), priced(9.0, 0.1))
    _, later = decided(fast(4.0), priced(None, 0.1), state=state.without_demand())
    _, unknown = decided(fast(4.0), priced(None, None))
    assert [each.offers[1].per_hour for each in (new, later, unknown)] == [0.1, 9.0, None]


def test_a_variant_whose_batches_are_unknown_needs_as_much_as_the_slowest() -> None:
    state, _ = decided(fast(150.0), slow(), slow()._replace(name="known", figures=VariantFigures(8.0)))  # fmt: skip
    assert state.needs["known"] == state.needs["slow"] != state.needs["fast"]


def test_without_a_gateway_more_is_needed() -> None:
    uneven = fast(150.0)
    load = uneven.figures.load
    assert load is not None
    figures = uneven.figures._replace(load=load._replace(dispersion=5.0, unevenness=0.02))
    _, routed = decided(uneven._replace(figures=figures), slow())
    _, apart = decided(uneven._replace(figures=figures), slow(), routed=False)
    assert apart.demand > routed.demand


def test_probes_that_began_after_the_start_of_the_operator_are_not_held() -> None:
    state, _ = decided(fast(100.0), slow(capacity=None, shape=None), state=MixState({}))
    probing = slow(running=2, capacity=0.0, shape=None)
    _, decision = decided(fast(100.0), probing, state=state, now=NOW + 10)
    assert decision.counts == {"fast": 1, "slow": 0}


def test_a_demand_beyond_every_mix_is_remembered() -> None:
    state, decision = decided(fast(1e6), slow())
    assert state.is_short
    assert decision.mix.unmet > 0


def test_a_variant_that_gets_no_more_pods_shrinks_with_the_demand() -> None:
    waiting = fast(40.0, running=3)._replace(ready=2, stuck=2)
    _, decision = decided(waiting)
    assert decision.counts == decision.target == {"fast": 1}
    busy = fast(1000.0, running=9)._replace(ready=2, stuck=2)
    _, decision = decided(busy)
    assert (decision.target, decision.counts) == ({"fast": 2}, {"fast": 3})


def test_a_stuck_variant_that_the_mix_would_use_keeps_one_more_replica() -> None:
    waiting = slow(running=3, price=0.1)._replace(ready=0, stuck=0)
    _, decision = decided(fast(150.0), waiting)
    assert decision.target["slow"] == 0
    assert decision.counts["slow"] == 1
    _, decision = decided(fast(150.0), waiting._replace(figures=slow(price=9.0).figures))
    assert decision.counts["slow"] == 0


def test_replicas_that_miss_the_objective_stay_while_the_others_get_no_pods() -> None:
    load = VariantLoad(NOW, 8.0, 8.0, serving=10.0)
    late = VariantInput("late", VariantFigures(0.0, load, 0.2, 60.0), 0, 100, 4, 4)
    stalled = fast(0.0, running=0)._replace(stuck=0)
    _, decision = decided(late, stalled)
    assert decision.counts["late"] == 4


def test_replicas_that_miss_the_objective_stay_while_the_others_do_not_suffice() -> None:
    load = VariantLoad(NOW, 8.0, 8.0, serving=10.0)
    late = VariantInput("late", VariantFigures(0.0, load, 0.2, 60.0), 0, 100, 4, 4)
    small = fast(300.0)._replace(most=1)
    _, decision = decided(late, small)
    assert decision.mix.unmet > 0
    assert decision.counts == {"late": 4, "fast": 1}
    _, decision = decided(late, small._replace(most=9, running=9, ready=9))
    assert decision.mix.unmet == 0
    assert decision.counts["late"] == 0


def blind(variant: VariantInput) -> VariantInput:
    return variant._replace(figures=variant.figures._replace(load=None))


def test_a_variant_without_signals_has_the_demand_that_was_measured_last() -> None:
    other = fast(150.0, price=9.0)._replace(name="other")
    state, both = decided(fast(150.0), other)
    later = NOW + 2 * MIN_HOLD_SECONDS
    _, same = decided(fast(150.0, time=later), blind(other), state=state, now=later)
    assert same.demand == pytest.approx(both.demand, rel=0.01)
    _, more = decided(fast(450.0, time=later), blind(other), state=state, now=later)
    assert more.counts["fast"] > both.counts["fast"]


def test_a_variant_that_starts_again_has_no_demand_from_before() -> None:
    other = fast(150.0)._replace(name="other")
    state, _ = decided(fast(150.0), other)
    state, _ = decided(fast(300.0, time=NOW + 5), blind(other)._replace(ready=0), state=state, now=NOW + 5)  # fmt: skip
    assert state.loads.keys() == {"fast"}


def test_ready_replicas_without_signals_stay_and_starting_ones_may_leave() -> None:
    dark = blind(fast(0.0, running=5)._replace(name="dark", ready=2))
    _, decision = decided(dark, fast(10.0, price=0.1))
    assert decision.counts["dark"] == decision.target["dark"] == 2
