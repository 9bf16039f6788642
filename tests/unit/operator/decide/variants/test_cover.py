"""The cheapest cover against all covers, and its bounds."""

from itertools import product
from random import Random
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.variants.cover import ReplicaGroup, cheapest_cover, relaxed_cost

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
def test_the_relaxed_cost_is_a_lower_bound(segments: list[ReplicaGroup], demand: float) -> None:
    counts, bound = cheapest_cover(demand, segments), relaxed_cost(demand, segments)
    if capacity_of(segments, counts) >= demand:
        assert bound <= cost_of(segments, counts) * (1 + 1e-7) + 1e-12


def test_eight_variants_of_500_replicas_take_milliseconds() -> None:
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
        begun = process_time()
        counts = cheapest_cover(demand, segments)
        assert process_time() - begun < 0.1  # 4 ms on an idle machine
        assert cost_of(segments, counts) <= 1.002 * relaxed_cost(demand, segments)
