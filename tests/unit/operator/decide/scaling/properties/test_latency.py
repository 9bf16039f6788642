"""Properties of predicted lateness, the cheapest count and alternatives: finite, bounded, monotonic."""

from itertools import pairwise
from math import inf, isfinite

from hypothesis import assume
from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import MAX_TAIL_RATIO
from penstock_operator.decide.scaling.capacity_at_objective.latency import predict
from penstock_operator.decide.scaling.capacity_at_objective.latency.p99_table import RHOS, TABLE
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import (
    SKEWED,
    TrafficShape,
    late_share,
)
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import cheapest_count
from penstock_operator.decide.scaling.law import (
    CurveInUse,
    Decision,
    DemandOutlook,
    PoolTraffic,
    RequestSpread,
)
from penstock_operator.decide.scaling.report.alternatives import Verdict, alternatives
from penstock_operator.measured import MEASURED_MAX
from tests.unit.operator.decide.scaling.capacity_at_objective import markov_chain
from tests.unit.operator.decide.scaling.properties.holds import CAPS, MEASURED, OBJECTIVES, holds
from tests.unit.operator.decide.scaling.properties.values import NOTHING_SEEN, SHAPES, law_settings

INTERCEPT = st.floats(0, 1)
DISPERSION = st.one_of(st.floats(0, 10), MEASURED)
UNEVENNESS = st.one_of(st.floats(0, 1), st.floats(0, 20_000), st.floats(0, 1e9))
LIMIT = st.one_of(st.floats(0.01, 30), MEASURED)
RHO = st.one_of(st.floats(0, 1.5), st.floats(0, 1e6))
QUADRATURE = 0.13
"""The largest error of 17 nodes where lateness is a step: the weight of one."""


def test_the_table_rises_with_utilisation_and_with_dispersion() -> None:
    for surface in TABLE:
        for row in surface:
            assert len(row) == len(RHOS)
            assert list(row) == sorted(row)
        for below, above in pairwise(surface):
            assert all(lower <= other for lower, other in zip(below, above, strict=True))


@holds(intercept=INTERCEPT, dispersion=DISPERSION, rhos=st.tuples(RHO, RHO))
def test_latency_is_positive_and_rises_with_utilisation(
    intercept: float, dispersion: float, rhos: tuple[float, float]
) -> None:
    low, high = (predict.p99(intercept, dispersion, rho) for rho in sorted(rhos))
    assert 0 < low <= high
    assert high < inf or max(rhos) >= 0.7


@holds(intercept=INTERCEPT, dispersions=st.tuples(DISPERSION, DISPERSION), rho=RHO)
def test_latency_rises_with_dispersion(
    intercept: float, dispersions: tuple[float, float], rho: float
) -> None:
    low, high = (predict.p99(intercept, dispersion, rho) for dispersion in sorted(dispersions))
    assert low <= high + 1e-9


@holds(
    examples=1,
    intercept=st.floats(0.05, 0.95),
    dispersion=st.floats(0.05, 1.6),
    rho=st.floats(0.1, 0.9),
)
def test_the_chain_rises_with_utilisation(intercept: float, dispersion: float, rho: float) -> None:
    latencies = [markov_chain.p99(intercept, dispersion, load) for load in (rho, rho + 0.05)]
    assert 0 < latencies[0] <= latencies[1]


TRAFFIC = st.builds(TrafficShape, INTERCEPT, DISPERSION, UNEVENNESS)


@holds(traffic=TRAFFIC, limit=LIMIT, rhos=st.tuples(RHO, RHO))
def test_lateness_is_a_share_and_rises_with_utilisation(
    traffic: TrafficShape, limit: float, rhos: tuple[float, float]
) -> None:
    low, high = (late_share(traffic, limit).at(rho) for rho in sorted(rhos))
    assert 0 <= low <= high + 1e-12
    assert high <= 1 + 1e-12


@holds(traffic=TRAFFIC, limits=st.tuples(LIMIT, LIMIT), rho=RHO)
def test_lateness_falls_with_a_longer_limit(
    traffic: TrafficShape, limits: tuple[float, float], rho: float
) -> None:
    strict, lax = (late_share(traffic, limit).at(rho) for limit in sorted(limits))
    assert lax <= strict + 1e-12


@holds(
    intercept=INTERCEPT, dispersion=st.floats(0, 1), limit=st.floats(2, 20),
    unevenness=st.tuples(UNEVENNESS, UNEVENNESS), rho=st.floats(0.01, 0.9),
)  # fmt: skip
def test_lateness_rises_with_unevenness_where_even_traffic_would_meet_the_limit(
    intercept: float,
    dispersion: float,
    limit: float,
    unevenness: tuple[float, float],
    rho: float,
) -> None:
    assume(late_share(TrafficShape(intercept, dispersion, 0.0), limit).at(rho) <= 0.05)
    less, more = sorted(unevenness)
    low, high = (
        late_share(TrafficShape(intercept, dispersion, value), limit).at(rho)
        for value in (less, more)
    )
    allowed = 1e-9 if less > 1.02 * SKEWED else QUADRATURE
    assert low <= high + allowed


@holds(
    intercept=INTERCEPT, dispersion=DISPERSION, limit=st.floats(0.01, 20), rho=st.floats(0.01, 2)
)
def test_lateness_of_traffic_on_one_of_many_pods_is_nearly_all(
    intercept: float, dispersion: float, limit: float, rho: float
) -> None:
    assert late_share(TrafficShape(intercept, dispersion, 1e7), limit).at(rho) > 0.99


@holds(
    traffic=TRAFFIC,
    limit=LIMIT,
    demands=st.lists(MEASURED, min_size=1, max_size=12),
    least=st.floats(0.2, 20_000),
    price=st.floats(12, 80),
)
def test_the_count_that_is_worth_its_price_is_at_least_what_is_needed(
    traffic: TrafficShape, limit: float, demands: list[float], least: float, price: float
) -> None:
    likely = [(1 / len(demands), demand) for demand in demands]

    def late(pods: float) -> predict.LateShares:
        skew = TrafficShape(
            traffic.intercept, traffic.dispersion, min(traffic.unevenness, 2.0) * pods
        )
        return late_share(skew, limit)

    count = cheapest_count(likely, least, price, late)
    assert least <= count <= 6 * max(least, 1.0) + least

    def cost(number: float) -> float:
        return number + price * sum(
            chance * demand * late(number).at(demand / number) for chance, demand in likely
        )

    assert cost(count) <= cost(least) * (1 + 1e-9)


@holds(
    outlook=st.builds(
        DemandOutlook,
        demand=MEASURED,
        curve=st.builds(CurveInUse, MEASURED, MEASURED, st.none(), MEASURED, st.none(), SHAPES),
        p99_ratio=st.floats(1, MAX_TAIL_RATIO),
        tail_ratio=st.floats(1, MAX_TAIL_RATIO),
        traffic=st.one_of(
            st.none(),
            st.builds(
                PoolTraffic,
                st.sampled_from(RequestSpread),
                MEASURED,
                UNEVENNESS,
                st.floats(1, MEASURED_MAX),
            ),
        ),
        overhead_seconds=st.floats(0, 4e4),
    ),
    replicas=st.integers(0, 10_000),
    cap=CAPS,
    objective=OBJECTIVES,
)
def test_alternatives_are_judged_whatever_the_outlook(
    outlook: DemandOutlook, replicas: int, cap: int, objective: int | None
) -> None:
    decision = Decision(
        cap, replicas, "", "", NOTHING_SEEN, metrics_available=True, outlook=outlook
    )
    for alternative in alternatives(decision, law_settings(objective_milliseconds=objective)):
        assert isfinite(alternative.utilization)
        assert alternative.p99_seconds is None or isfinite(alternative.p99_seconds)
        assert (alternative.verdict is Verdict.SATURATED) == (alternative.utilization >= 1)
