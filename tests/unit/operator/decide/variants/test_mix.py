"""The cheapest mix of variants: bounds, prices, objectives, probes and exchanges."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.variants.exchange import STARTS_PER_SPARE, exchange
from penstock_operator.decide.variants.mix import (
    MAX_PROBES,
    PAYBACK_SECONDS,
    TOLERANCE,
    MixTerm,
    VariantOffer,
    cheapest_mix,
    mix_within,
    steady_mix,
)


def offer(
    name: str, capacity: float | None, per_hour: float | None, most: int = 10, start: float = 60.0
) -> VariantOffer:
    return VariantOffer(name, capacity, per_hour, 0, most, start)


NAMES = ("a", "b", "c")


def _offers(rows: list[tuple[float | None, float | None, int, int, float]]) -> list[VariantOffer]:
    return [
        VariantOffer(name, capacity, price, least, least + more, start)
        for name, (capacity, price, least, more, start) in zip(NAMES, rows, strict=False)
    ]


ROW = st.tuples(
    st.one_of(st.none(), st.just(0.0), st.integers(1, 20).map(float), st.floats(0.5, 40)),
    st.one_of(st.none(), st.integers(0, 6).map(float), st.floats(0.01, 9)),
    st.integers(0, 2),
    st.integers(0, 4),
    st.floats(1, 600),
)
OFFERS = st.lists(ROW, max_size=3).map(_offers)
RUNNING = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8))
DEMAND = st.one_of(st.just(0.0), st.floats(0.1, 300))


def served(offers: list[VariantOffer], counts: dict[str, int]) -> float:
    return sum(counts[each.name] * (each.capacity or 0.0) for each in offers)


def cost_with_starts(
    offers: list[VariantOffer], counts: dict[str, int], running: dict[str, int]
) -> float:
    total = 0.0
    for each in offers:
        price, count = each.per_hour or 0.0, counts[each.name]
        new = max(count - max(running.get(each.name, 0), each.least), 0)
        total += price * (count + new * each.start_seconds / PAYBACK_SECONDS)
    return total


@given(DEMAND, OFFERS, RUNNING)
def test_bounds_are_kept_and_demand_is_met_or_reported(
    demand: float, offers: list[VariantOffer], running: dict[str, int]
) -> None:
    mix = cheapest_mix(demand, offers, running)
    assert set(mix.counts) == set(mix.reasons) == {each.name for each in offers}
    for each in offers:
        assert each.least <= mix.counts[each.name] <= each.most
    if mix.unmet:
        usable = [each for each in offers if each.capacity]
        assert all(mix.counts[each.name] == each.most for each in usable)
        assert abs(demand - served(offers, dict(mix.counts)) - mix.unmet) < 1e-6
    else:
        assert served(offers, dict(mix.counts)) >= demand * (1 - 1e-5)


@given(DEMAND, OFFERS, RUNNING)
def test_no_mix_of_priced_variants_is_cheaper(
    demand: float, offers: list[VariantOffer], running: dict[str, int]
) -> None:
    priced = [each for each in offers if each.capacity and each.per_hour is not None]
    mix = cheapest_mix(demand, priced, running)
    if mix.unmet:
        return
    every = product(*(range(each.least, each.most + 1) for each in priced))
    mixes = [dict(zip([each.name for each in priced], counts, strict=True)) for counts in every]
    enough = [counts for counts in mixes if served(priced, counts) >= demand]
    cheapest = min(cost_with_starts(priced, counts, running) for counts in enough)
    chosen = cost_with_starts(priced, dict(mix.counts), running)
    assert chosen <= cheapest * (1 + 1e-6) + 1e-6


@given(DEMAND, OFFERS, RUNNING)
def test_a_mix_that_runs_stays(
    demand: float, offers: list[VariantOffer], running: dict[str, int]
) -> None:
    mix = cheapest_mix(demand, offers, running)
    again = cheapest_mix(demand, offers, mix.counts)
    assert again.counts == mix.counts or again.unmet == mix.unmet > 0 or _is_tie(offers)


def _is_tie(offers: list[VariantOffer]) -> bool:
    """Return whether a probe, whose worth depends on the mix, or replicas that cost nothing blur the comparison."""
    return any(each.capacity is None or each.per_hour == 0 for each in offers)


@given(DEMAND, OFFERS, RUNNING)
def test_a_variant_that_misses_the_objective_gets_its_minimum_only(
    demand: float, offers: list[VariantOffer], running: dict[str, int]
) -> None:
    mix = cheapest_mix(demand, offers, running)
    for each in offers:
        if each.capacity == 0:
            assert mix.counts[each.name] == each.least
            assert mix.reasons[each.name].term is MixTerm.OBJECTIVE_INFEASIBLE


def test_small_replicas_take_what_a_large_one_would_leave_idle() -> None:
    offers = [offer("gpu", 100.0, 10.0), offer("cpu", 9.0, 1.0)]
    assert cheapest_mix(105.0, offers, {}).counts == {"gpu": 1, "cpu": 1}
    assert cheapest_mix(195.0, offers, {}).counts == {"gpu": 2, "cpu": 0}


def test_an_unpriced_variant_serves_only_what_priced_ones_cannot() -> None:
    offers = [offer("gpu", 100.0, None), offer("other", 50.0, None), offer("cpu", 9.0, 5.0, most=3)]
    assert cheapest_mix(27.0, offers, {}).counts == {"gpu": 0, "other": 0, "cpu": 3}
    mix = cheapest_mix(127.0, offers, {})
    assert mix.counts == {"gpu": 1, "other": 0, "cpu": 3}
    assert mix.per_hour is None
    assert mix.reasons["gpu"].term is MixTerm.PRICE_UNKNOWN


def test_unpriced_variants_alone_are_as_few_replicas_as_possible() -> None:
    offers = [offer("small", 10.0, None), offer("large", 40.0, None)]
    assert cheapest_mix(75.0, offers, {}).counts == {"small": 0, "large": 2}


def test_a_mix_of_nearly_equal_cost_is_not_exchanged() -> None:
    offers = [offer("old", 10.0, 1.01), offer("new", 10.0, 1.0)]
    assert cheapest_mix(50.0, offers, {"old": 5}).counts == {"old": 5, "new": 0}
    assert cheapest_mix(50.0, offers, {}).counts == {"old": 0, "new": 5}


def test_a_mix_is_exchanged_if_its_saving_pays_the_starts() -> None:
    offers = [offer("old", 10.0, 1.2), offer("new", 10.0, 1.0)]
    assert cheapest_mix(50.0, offers, {"old": 5}).counts == {"old": 0, "new": 5}
    slow = [offer("old", 10.0, 1.2), offer("new", 10.0, 1.0, start=1200.0)]
    assert cheapest_mix(50.0, slow, {"old": 5}).counts == {"old": 5, "new": 0}


def test_a_variant_is_measured_once_and_only_if_that_could_pay() -> None:
    unknown = offer("new", None, 2.0)
    offers = [offer("old", 10.0, 1.5), unknown]
    assert cheapest_mix(10.0, offers, {"old": 1}).counts == {"old": 1, "new": 0}
    probing = cheapest_mix(20.0, offers, {"old": 2})
    assert probing.counts == {"old": 2, "new": 1}
    assert probing.reasons["new"].term is MixTerm.PROBE
    measured = [offer("old", 10.0, 1.5), offer("new", 10.0, 2.0)]
    assert cheapest_mix(20.0, measured, probing.counts).counts == {"old": 2, "new": 0}


def test_without_any_measurement_one_replica_of_each_variant_starts() -> None:
    offers = [offer("a", None, 2.0), offer("b", None, None), offer("c", None, 1.0, most=0)]
    mix = cheapest_mix(1.0, offers, {})
    assert mix.counts == {"a": 1, "b": 1, "c": 0}
    assert mix.unmet == 1.0


def test_an_unpriced_variant_is_probed_only_where_more_replicas_are_needed() -> None:
    offers = [offer("old", 10.0, 1.5, most=3), offer("new", None, None)]
    assert cheapest_mix(30.0, offers, {}).counts == {"old": 3, "new": 0}
    assert cheapest_mix(31.0, offers, {}).counts == {"old": 3, "new": 1}


def test_a_replica_leaves_when_its_replacement_is_ready() -> None:
    offers = [offer("old", 10.0, 2.0), offer("new", 10.0, 1.0)]
    target = cheapest_mix(30.0, offers, {"old": 3}).counts
    assert target == {"old": 0, "new": 3}
    begun = exchange(30.0, offers, target, {"old": 3}, {"old": 3})
    assert begun == {"old": 3, "new": 3}
    midway = exchange(30.0, offers, target, begun, {"old": 3, "new": 2})
    assert midway == {"old": 1, "new": 3}
    assert exchange(30.0, offers, target, midway, {"old": 1, "new": 3}) == target


def test_replicas_that_miss_the_objective_serve_until_their_replacement_is_ready() -> None:
    offers = [offer("late", 0.0, 1.0), offer("new", 10.0, 2.0)]
    target = {"late": 0, "new": 3}
    begun = exchange(30.0, offers, target, {"late": 8, "new": 1}, {"late": 6, "new": 1})
    assert begun == {"late": 6, "new": 3}
    assert exchange(30.0, offers, target, begun, {"late": 6, "new": 2}) == begun
    assert exchange(30.0, offers, target, begun, {"late": 6, "new": 3}) == target


def test_a_start_is_not_given_up_for_another_while_the_ready_replicas_are_short() -> None:
    offers = [offer("large", 100.0, 8.0), offer("small", 10.0, 1.0)]
    running = {"large": 2, "small": 7}
    ready = {"large": 2, "small": 0}
    assert exchange(290.0, offers, {"large": 3, "small": 0}, running, ready) == {
        "large": 3,
        "small": 7,
    }
    assert exchange(190.0, offers, {"large": 2, "small": 0}, running, ready) == {
        "large": 2,
        "small": 0,
    }


def test_replicas_beyond_a_lower_demand_leave_at_once() -> None:
    offers = [offer("a", 10.0, 2.0), offer("b", 10.0, 1.0)]
    target = cheapest_mix(20.0, offers, {"a": 2, "b": 2}).counts
    assert exchange(20.0, offers, target, {"a": 2, "b": 2}, {"a": 2, "b": 2}) == {"a": 0, "b": 2}


@given(DEMAND, OFFERS, RUNNING, RUNNING)
def test_an_exchange_starts_all_and_never_drains_what_serves_the_demand(
    demand: float, offers: list[VariantOffer], running: dict[str, int], ready: dict[str, int]
) -> None:
    running = {each.name: min(running.get(each.name, 0), each.most) for each in offers}
    ready = {name: min(ready.get(name, 0), count) for name, count in running.items()}
    target = cheapest_mix(demand, offers, running).counts
    counts = exchange(demand, offers, target, running, ready)
    for name, count in counts.items():
        spares = target[name] // STARTS_PER_SPARE
        assert target[name] <= count <= max(target[name] + spares, running[name])
    before = served(offers, ready)
    after = served(offers, {name: min(ready[name], count) for name, count in counts.items()})
    assert after >= min(demand, before) * (1 - 1e-6)


def test_spares_start_while_what_is_replaced_waits_for_the_last_starts() -> None:
    offers = [offer("old", 100.0, 8.0), offer("new", 5.0, 0.2, most=50)]
    target = {"old": 0, "new": 40}
    begun = exchange(200.0, offers, target, {"old": 2}, {"old": 2})
    assert begun == {"old": 2, "new": 45}
    later = exchange(200.0, offers, target, begun, {"old": 2, "new": 38})
    assert later == {"old": 1, "new": 45}, "the spares start still, and the last old replica waits"
    assert exchange(200.0, offers, target, later, {"old": 1, "new": 41}) == target


def test_spares_cost_a_part_of_what_waits() -> None:
    offers = [offer("old", 100.0, 8.0), offer("new", 5.0, 1.5, most=50)]
    begun = exchange(200.0, offers, {"old": 0, "new": 40}, {"old": 2}, {"old": 2})
    assert begun == {"old": 2, "new": 42}


def test_a_cheap_variant_is_measured_by_several_probes() -> None:
    offers = [offer("old", 100.0, 8.0), offer("new", None, 0.2), offer("dear", None, 5.0)]
    assert cheapest_mix(200.0, offers, {"old": 2}).counts == {
        "old": 2,
        "new": MAX_PROBES,
        "dear": 1,
    }


def test_a_mix_near_the_one_before_stays() -> None:
    offers = [offer("a", 10.0, 1.0, most=50), offer("b", 4.0, 0.41, most=50)]
    before = {"a": 9, "b": 3}
    assert cheapest_mix(100.0, offers, {}).counts == {"a": 10, "b": 0}
    assert steady_mix(50, 100.0, offers, before, before).counts == before
    assert steady_mix(50, 112.0, offers, before, before).counts == {"a": 10, "b": 3}
    more = {"a": 11, "b": 0}
    assert steady_mix(50, 99.0, offers, more, more).counts == {"a": 10, "b": 0}


def test_a_mix_is_exchanged_if_another_one_is_cheaper_by_more() -> None:
    offers = [offer("a", 10.0, 1.0, most=50), offer("b", 4.0, 0.3, most=50)]
    before = {"a": 10, "b": 0}
    assert steady_mix(50, 100.0, offers, before, before).counts == {"a": 0, "b": 25}


def test_replicas_that_cost_nothing_leave_when_the_demand_falls() -> None:
    free = offer("free", 10.0, 0.0, most=50)
    assert steady_mix(50, 20.0, [free], {"free": 9}, {"free": 9}).counts == {"free": 2}
    offers, before = [free, offer("cloud", 10.0, 1.0, most=50)], {"free": 9, "cloud": 0}
    assert steady_mix(50, 20.0, offers, before, before).counts == {"free": 2, "cloud": 0}


@given(DEMAND, OFFERS, RUNNING)
def test_a_steady_mix_serves_what_the_cheapest_serves(
    demand: float, offers: list[VariantOffer], before: dict[str, int]
) -> None:
    running = {each.name: min(before.get(each.name, 0), each.most) for each in offers}
    most = sum(each.most for each in offers)
    cheapest = mix_within(most, demand, offers, running)
    mix = steady_mix(most, demand, offers, running, running)
    assert mix.unmet <= cheapest.unmet
    for each in offers:
        assert each.least <= mix.counts[each.name] <= max(each.most, each.least)
    if cheapest.per_hour is not None and mix.per_hour is not None:
        assert mix.per_hour <= (1 + TOLERANCE) * cheapest.per_hour * (1 + 1e-9)
