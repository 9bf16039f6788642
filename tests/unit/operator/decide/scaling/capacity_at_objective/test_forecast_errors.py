"""The likely errors of a forecast come from the past forecasts most similar to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast_errors as known
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import (
    Forecaster,
    likely_demands,
    outlook,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast_errors import (
    MAX_ERRORS,
    PRIOR_ERRORS,
    ForecastError,
    ForecastErrors,
    likely_errors,
    quantile,
)

SWINGS = ForecastErrors.of(
    ForecastError(100.0 + i / 1000, by) if i % 2 else ForecastError(900.0 + i / 1000, -by)
    for i, by in enumerate([0.0, 0.0, 400.0, 400.0] * (MAX_ERRORS // 4))
)
"""Of traffic that bursts from 100 to as much as 500 rows a second, and falls from 900."""


def test_errors_are_sorted_by_forecast_and_the_oldest_is_dropped_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "MAX_ERRORS", 3)
    heard = ForecastErrors()
    for expected in (3.0, 1.0, 3.0, 0.5, 2.0):
        heard = heard.add(ForecastError(expected, -expected))
    assert [error.expected for error in heard.latest] == [3.0, 0.5, 2.0]
    assert heard == ForecastErrors.of(heard.latest)


def test_a_burst_is_expected_at_low_demand_and_not_on_top_of_another() -> None:
    assert max(likely_errors(SWINGS, 110.0, 110.0)) == 400
    assert max(likely_errors(SWINGS, 880.0, 880.0)) == 0
    demands = [
        demand
        for _, demand in likely_demands(outlook(Forecaster(level=880.0, errors=SWINGS), 60.0))
    ]
    assert max(demands) == 880


def test_a_forecast_unlike_any_before_uses_the_nearest() -> None:
    assert likely_errors(SWINGS, 5000.0, 5000.0) == likely_errors(SWINGS, 902.0, 902.0)
    assert likely_errors(SWINGS, 0.0, 0.0) == likely_errors(SWINGS, 99.0, 99.0)


def test_few_errors_all_count_together_with_the_prior() -> None:
    few = ForecastErrors.of(ForecastError(100.0 * i, float(i)) for i in range(20))
    errors = likely_errors(few, 0.0, 1000.0)
    assert set(map(float, range(20))) <= set(errors)
    assert len(errors) == 20 + len(PRIOR_ERRORS) - 3
    assert list(likely_errors(ForecastErrors(), 7.0, 100.0)) == [
        100.0 * share for share in PRIOR_ERRORS
    ]


@pytest.mark.parametrize("expected", [-5.0, 0.0, 1.4, 7.0, 8.1, 30.0, 1e12])
def test_only_the_nearest_forecasts_count(monkeypatch: pytest.MonkeyPatch, expected: float) -> None:
    monkeypatch.setattr(known, "NEIGHBORS", 4)
    heard = [ForecastError(at, 100 + at) for at in (9.0, 0.1, 3.0, 8.0, 1.0, 30.5, 7.3, 0.6, 2.2)]
    nearest = sorted(heard, key=lambda error: abs(error.expected - expected))[:4]
    assert ForecastErrors.of(heard).near(expected) == sorted(error.by for error in nearest)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(-1e9, 1e9)).map(lambda error: ForecastError(*error)),
        max_size=300,
    ),
    st.floats(0, 1e12),
)
def test_likely_errors_are_past_errors_or_the_prior(
    heard: list[ForecastError], expected: float
) -> None:
    errors = likely_errors(ForecastErrors.of(heard), expected, 100.0)
    assert list(errors) == sorted(errors)
    values = {error.by for error in heard} | {100.0 * share for share in PRIOR_ERRORS}
    assert set(errors) <= values
    assert errors[0] <= quantile(errors, 0.5) <= errors[-1]
