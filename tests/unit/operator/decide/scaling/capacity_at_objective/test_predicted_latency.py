"""Predicted p99 (docs/design/control-law.md#predicted-latency): the embedded chain, tabulated; any rho >= 1 is infinite."""

from math import inf, isfinite

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.latency import predict
from penstock_operator.decide.scaling.capacity_at_objective.latency.p99_table import (
    DISPERSIONS,
    INTERCEPTS,
    RHOS,
    TABLE,
)
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import (
    TrafficShape,
    late_share,
)
from tests.unit.operator.decide.scaling.capacity_at_objective import markov_chain


@pytest.mark.parametrize(("i", "j", "k"), [(0, 0, 3), (1, 2, 6), (3, 1, 8), (4, 3, 4)])
def test_the_table_is_what_the_chain_says(i: int, j: int, k: int) -> None:
    p99 = markov_chain.p99(INTERCEPTS[i], DISPERSIONS[j], RHOS[k])
    assert TABLE[i][j][k] == pytest.approx(p99)


def test_from_saturation_on_latency_is_infinite() -> None:
    assert predict.p99(0.5, 0.1, 1.0) == inf
    assert predict.p99(0.5, 0.1, 7.0) == inf
    assert markov_chain.p99(0.5, 0.1, 1.0) == inf


@pytest.mark.parametrize("intercept", [0.0, 0.1, 0.25, 0.7, 1.0])
@pytest.mark.parametrize("dispersion", [0.0, 0.02, 0.15, 1.0, 50.0])
def test_latency_rises_with_load(intercept: float, dispersion: float) -> None:
    latencies = [predict.p99(intercept, dispersion, rho / 100) for rho in range(0, 100, 5)]
    assert latencies == sorted(latencies)
    assert latencies[0] > 0


def test_burstier_traffic_waits_longer() -> None:
    latencies = [predict.p99(0.25, dispersion, 0.6) for dispersion in (0.02, 0.1, 0.3, 1.0)]
    assert latencies == sorted(latencies)
    assert latencies[0] < latencies[-1]


def test_more_requests_are_late_with_bursts_unevenness_load_and_a_tighter_limit() -> None:
    calm = late_share(TrafficShape(0.25, 0.03, 0.0), 2.2).at(0.8)
    assert 0 < calm < 0.01
    assert late_share(TrafficShape(0.25, 0.3, 0.0), 2.2).at(0.8) > calm
    assert late_share(TrafficShape(0.25, 0.03, 0.1), 2.2).at(0.8) > calm
    assert late_share(TrafficShape(0.25, 0.03, 0.0), 1.2).at(0.8) > calm
    assert late_share(TrafficShape(0.25, 0.03, 0.0), 2.2).at(0.95) > calm
    assert late_share(TrafficShape(0.25, 0.03, 0.0), 0.01).at(0.05) > 0.9


@pytest.mark.parametrize("unevenness", [2.0, 20.0, 85.0, 100.0, 110.0, 1e4, 1e9])
def test_the_more_skewed_the_traffic_the_more_of_it_meets_an_overloaded_pod(
    unevenness: float,
) -> None:
    """Exactly: the size-biased gamma distribution, here of pods that are late from their own saturation on."""
    rho, tiny = 0.5, 1e-9
    share = late_share(TrafficShape(0.05, tiny, unevenness), 18.0).at(rho)
    above = 1 - markov_chain._gamma(1 + 1 / unevenness, 1 / rho / unevenness)
    assert share == pytest.approx(above, abs=0.03)


def test_traffic_of_one_pod_among_many_is_late_at_any_load() -> None:
    shares = [
        late_share(TrafficShape(0.25, 0.2, 110.0), 2.4).at(rho) for rho in (0.05, 0.3, 0.5, 2.0)
    ]
    assert shares == sorted(shares)
    assert shares[0] > 0.8
    assert 0.98 < shares[-1] <= 1


def test_even_traffic_meets_the_limit_at_the_tabulated_utilisation() -> None:
    shares = late_share(TrafficShape(0.4, 0.1, 0.0), predict.p99(0.4, 0.1, 0.7))
    assert shares.at(0.68) < 0.01 < shares.at(0.72)


def test_arrivals_keep_their_mean_and_variance() -> None:
    for mean, scale in ((0.5, 0.3), (3.0, 1.0), (6.0, 4.0)):
        chances = markov_chain._arrivals(mean, scale)
        mean_found = sum(k * chance for k, chance in enumerate(chances))
        variance = sum(k * k * chance for k, chance in enumerate(chances)) - mean_found**2
        assert sum(chances) == pytest.approx(1)
        assert all(isfinite(chance) for chance in chances)
        assert mean_found == pytest.approx(mean, rel=1e-3)
        assert variance == pytest.approx(scale * mean, rel=0.2, abs=0.2), "rounding adds a sixth"
