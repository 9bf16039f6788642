"""What may come is told by what came of the forecasts most like the present one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast_errors as known
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import (
    Forecaster,
    likely_demands,
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


def test_misses_stay_in_order_of_what_was_expected_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "MAX_ERRORS", 3)
    heard = ForecastErrors()
    for expected in (3.0, 1.0, 3.0, 0.5, 2.0):
        heard = heard.add(ForecastError(expected, -expected))
    assert [one.expected for one in heard.latest] == [3.0, 0.5, 2.0]
    assert heard == ForecastErrors.of(heard.latest)


def test_a_burst_is_feared_where_bursts_began_and_not_upon_another() -> None:
    assert max(likely_errors(SWINGS, 110.0, 110.0)) == 400
    assert max(likely_errors(SWINGS, 880.0, 880.0)) == 0
    demands = [
        demand for _, demand in likely_demands(Forecaster(level=880.0, errors=SWINGS), 880.0)
    ]
    assert max(demands) == 880


def test_a_forecast_unlike_any_before_is_judged_by_the_nearest() -> None:
    assert likely_errors(SWINGS, 5000.0, 5000.0) == likely_errors(SWINGS, 902.0, 902.0)
    assert likely_errors(SWINGS, 0.0, 0.0) == likely_errors(SWINGS, 99.0, 99.0)


def test_few_misses_all_count_and_what_others_saw_beside() -> None:
    few = ForecastErrors.of(ForecastError(100.0 * i, float(i)) for i in range(20))
    found = likely_errors(few, 0.0, 1000.0)
    assert set(map(float, range(20))) <= set(found)
    assert len(found) == 20 + len(PRIOR_ERRORS) - 3
    assert list(likely_errors(ForecastErrors(), 7.0, 100.0)) == [
        100.0 * one for one in PRIOR_ERRORS
    ]


@pytest.mark.parametrize("expected", [-5.0, 0.0, 1.4, 7.0, 8.1, 30.0, 1e12])
def test_those_nearest_count_and_no_others(
    monkeypatch: pytest.MonkeyPatch, expected: float
) -> None:
    monkeypatch.setattr(known, "NEIGHBORS", 4)
    heard = [ForecastError(at, 100 + at) for at in (9.0, 0.1, 3.0, 8.0, 1.0, 30.5, 7.3, 0.6, 2.2)]
    nearest = sorted(heard, key=lambda one: abs(one.expected - expected))[:4]
    assert ForecastErrors.of(heard).near(expected) == sorted(one.by for one in nearest)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(-1e9, 1e9)).map(lambda one: ForecastError(*one)),
        max_size=300,
    ),
    st.floats(0, 1e12),
)
def test_what_may_come_lies_within_what_came(heard: list[ForecastError], expected: float) -> None:
    found = likely_errors(ForecastErrors.of(heard), expected, 100.0)
    assert list(found) == sorted(found)
    values = {one.by for one in heard} | {100.0 * share for share in PRIOR_ERRORS}
    assert set(found) <= values
    assert found[0] <= quantile(found, 0.5) <= found[-1]
