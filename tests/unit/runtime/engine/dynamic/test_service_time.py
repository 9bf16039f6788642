import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_runtime.engine.dynamic.batch_former import ArrivalRate
from penstock_runtime.engine.dynamic.service_curve import BatchServiceCurve
from penstock_runtime.engine.service_time import UNKNOWN, ServiceTime, ServiceTimeSums, fit


def curve_of(*batches: tuple[int, float]) -> BatchServiceCurve:
    curve = BatchServiceCurve()
    for rows, seconds in batches:
        curve.note(rows, seconds)
    return curve


@given(st.floats(1e-4, 10), st.floats(1e-5, 1), st.lists(st.integers(1, 512), min_size=2))
def test_an_exact_line_is_found_again(fixed: float, per_row: float, sizes: list[int]) -> None:
    sizes = [*sizes, 1, 64]
    curve = curve_of(*((rows, fixed + per_row * rows) for rows in sizes))
    fitted = curve.service_time()
    assert fitted.seconds(64) == pytest.approx(fixed + per_row * 64, rel=1e-3)
    assert fitted.seconds(1) == pytest.approx(fixed + per_row, rel=1e-2, abs=1e-3)


def test_nothing_measured_predicts_nothing() -> None:
    assert fit(ServiceTimeSums()) == UNKNOWN


def test_batches_of_one_size_predict_their_mean() -> None:
    assert curve_of((8, 0.1), (8, 0.3)).service_time() == ServiceTime(0.2, 0.0)


def test_a_falling_line_is_replaced_by_the_mean() -> None:
    assert curve_of((1, 0.25), (8, 0.125)).service_time() == ServiceTime(0.1875, 0.0)


def test_a_line_that_would_begin_below_zero_begins_at_zero() -> None:
    fitted = curve_of((1, 0.001), (2, 0.1), (4, 0.4)).service_time()
    assert fitted.fixed_seconds == 0.0
    assert fitted.row_seconds > 0.0


def test_many_rows_take_as_many_batches_as_the_cap_makes_of_them() -> None:
    assert ServiceTime(1.0, 0.1).seconds_for_all(rows=17, cap=8) == pytest.approx(3 + 1.7)


def test_the_sums_are_those_of_the_settled_batches() -> None:
    sums = curve_of((2, 0.5), (4, 1.0)).sums()
    assert sums == ServiceTimeSums(
        batches=2.0,
        cost_units=6.0,
        cost_units_squared=20.0,
        seconds=1.5,
        cost_unit_seconds=5.0,
        seconds_squared=1.25,
        by_size=(0.0, 0.0, 0.0, 1.0, 2.0, 0.5, 1.0, 4.0, 1.0),
    )


def test_each_class_of_sizes_ends_at_a_power_of_two() -> None:
    by_size = curve_of(*((rows, 0.5) for rows in range(1, 17))).sums().by_size
    assert by_size[::3] == (1.0, 1.0, 2.0, 4.0, 8.0)
    assert by_size[1::3] == (1.0, 2.0, 7.0, 26.0, 100.0)
    assert by_size[2::3] == (0.5, 0.5, 1.0, 2.0, 4.0)


def test_a_steady_stream_is_measured_at_its_rate_and_forgotten_when_it_ends() -> None:
    rate = ArrivalRate()
    for n in range(2000):
        rate.note(1, now=n * 0.01)
    assert rate.rows_per_second(now=19.99) == pytest.approx(100, rel=0.02)
    assert rate.rows_per_second(now=30.0) < 0.01
