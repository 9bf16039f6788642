"""The cheapest cover against all covers, and its bounds."""

from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.variants.cover import (
    MAX_NODES,
    ReplicaGroup,
    _ratio,
    _Search,
    cheapest_cover,
)

SEGMENTS = st.lists(
    st.builds(
        ReplicaGroup,
        st.one_of(st.integers(1, 12).map(float), st.floats(0.1, 50)),
        st.one_of(st.integers(1, 9).map(float), st.floats(0.01, 9)),
        st.integers(0, 5),
    ),
    max_size=4,
)


DEMAND = st.one_of(st.just(0.0), st.floats(1e-6, 300))


def cost_of(segments: list[ReplicaGroup], counts: tuple[int, ...]) -> float:
    return sum(count * segment.price for count, segment in zip(counts, segments, strict=True))


def capacity_of(segments: list[ReplicaGroup], counts: tuple[int, ...]) -> float:
    return sum(count * segment.capacity for count, segment in zip(counts, segments, strict=True))


def search(demand: float, segments: list[ReplicaGroup]) -> _Search:
    return _Search(sorted(segments, key=_ratio), demand)


@given(SEGMENTS, DEMAND)
def test_no_other_cover_is_cheaper(segments: list[ReplicaGroup], demand: float) -> None:
    counts = cheapest_cover(demand, segments)
    assert all(0 <= count <= segment.most for count, segment in zip(counts, segments, strict=True))
    every = product(*(range(segment.most + 1) for segment in segments))
    covers = [other for other in every if capacity_of(segments, other) >= demand * (1 - 1e-9)]
    if not covers:
        assert counts == tuple(segment.most for segment in segments)
        return
    assert capacity_of(segments, counts) >= demand * (1 - 1e-8)
    cheapest = min(cost_of(segments, other) for other in covers)
    assert cost_of(segments, counts) <= cheapest * (1 + 1e-7)


@given(SEGMENTS, DEMAND)
def test_the_bound_of_a_search_is_no_more_than_the_cost(
    segments: list[ReplicaGroup], demand: float
) -> None:
    counts, bound = cheapest_cover(demand, segments), search(demand, segments).bound(0, demand)
    if capacity_of(segments, counts) >= demand:
        assert bound <= cost_of(segments, counts) * (1 + 1e-7) + 1e-12


def test_the_search_for_eight_variants_of_500_replicas_is_short() -> None:
    random = Random(1)  # noqa: S311
    for _ in range(20):
        segments = []
        for _ in range(8):
            capacity = random.uniform(1, 200)
            price = capacity * random.uniform(0.099, 0.101)
            segments += [
                ReplicaGroup(capacity, price, 250),
                ReplicaGroup(capacity, 1.03 * price, 250),
            ]
        whole = sum(segment.capacity * segment.most for segment in segments)
        demand = random.uniform(0.05, 0.9) * whole
        searched = search(demand, segments)
        searched.run()
        assert searched._nodes <= MAX_NODES + len(segments)
        counts = cheapest_cover(demand, segments)
        assert cost_of(segments, counts) <= 1.002 * search(demand, segments).bound(0, demand)
