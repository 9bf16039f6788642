"""Batch time from sums alone, and its 99th percentile from buckets."""

from collections.abc import Iterable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import (
    batch_seconds,
    batch_tail_seconds,
    fit,
    quantile,
)


def sums_of(batches: Iterable[tuple[float, float]]) -> CurveSumsTuple:
    """Return the sums a runtime would publish over (rows, seconds)."""
    each = list(batches)
    return CurveSumsTuple(
        batches=len(each),
        cost_units=sum(b for b, _ in each),
        cost_units_squared=sum(b * b for b, _ in each),
        seconds=sum(t for _, t in each),
        cost_unit_seconds=sum(b * t for b, t in each),
        seconds_squared=sum(t * t for _, t in each),
    )


@given(
    a=st.floats(0.001, 1),
    c=st.floats(0.0005, 0.1),
    sizes=st.lists(st.integers(1, 256), min_size=8, max_size=60).filter(lambda s: len(set(s)) > 2),
)
def test_a_line_is_found_again_from_its_sums(a: float, c: float, sizes: list[int]) -> None:
    curve = fit(sums_of((b, a + c * b) for b in sizes))
    assert curve is not None
    assert curve.a == pytest.approx(a, rel=1e-3, abs=1e-6)
    assert curve.c == pytest.approx(c, rel=1e-3)


def test_batches_of_one_size_tell_no_slope_and_the_mean_is_scaled_up() -> None:
    sums = sums_of([(4, 0.060)] * 50)
    assert fit(sums) is None
    assert batch_seconds(sums, 8) == pytest.approx(0.120)
    assert batch_seconds(sums, 2) == pytest.approx(0.060), "never below what was seen"


def test_few_batches_tell_no_slope() -> None:
    assert fit(sums_of([(1, 0.045), (4, 0.06), (8, 0.08)])) is None


def test_a_falling_line_is_no_service_curve() -> None:
    sums = sums_of([(b, 1.0 - 0.01 * b) for b in range(1, 20)])
    assert fit(sums) is None


def test_a_line_below_zero_is_refitted_through_the_origin() -> None:
    curve = fit(sums_of([(b, max(0.0001, 0.01 * b - 0.02)) for b in range(1, 20)]))
    assert curve is not None
    assert curve.a == 0
    assert curve.c > 0


def test_a_slope_too_unsure_for_a_far_size_gives_way_to_the_mean() -> None:
    noisy = [(b, 0.05 + (0.02 if i % 2 else -0.02)) for i, b in enumerate([4, 5] * 10)]
    sums = sums_of([(b, t + 0.001 * b) for b, t in noisy])
    mean_rows, mean_seconds = sums.cost_units / 20, sums.seconds / 20
    assert batch_seconds(sums, 64) == pytest.approx(mean_seconds * 64 / mean_rows)


def test_no_batches_are_absent_not_zero() -> None:
    assert batch_seconds(None, 4) is None
    assert batch_seconds(CurveSums(), 4) is None


BUCKETS = ((0.05, 0.0), (0.1, 99.0), (0.2, 100.0), (inf, 100.0))


def test_a_quantile_is_interpolated_inside_its_bucket_as_prometheus_does() -> None:
    assert quantile(0.99, BUCKETS) == pytest.approx(0.1)
    assert quantile(0.995, BUCKETS) == pytest.approx(0.15)
    assert quantile(0.495, BUCKETS) == pytest.approx(0.075)


def test_in_the_infinite_bucket_it_is_the_highest_finite_bound() -> None:
    assert quantile(0.99, ((0.1, 0.0), (inf, 10.0))) == pytest.approx(0.1)


def test_an_empty_or_endless_histogram_has_no_quantile() -> None:
    assert quantile(0.99, ()) is None
    assert quantile(0.99, ((0.1, 0.0), (inf, 0.0))) is None
    assert quantile(0.99, ((0.1, 5.0),)) is None


def test_the_sums_sharpen_a_p99_guessed_from_wide_buckets() -> None:
    """All batches took 51 ms; the bucket alone says 99.5 ms."""
    sums = sums_of([(1, 0.051)] * 100)
    buckets = ((0.05, 0.0), (0.1, 100.0), (inf, 100.0))
    assert quantile(0.99, buckets) == pytest.approx(0.0995)
    assert batch_tail_seconds(buckets, sums) == pytest.approx(0.051, rel=1e-3)


def test_the_tail_follows_the_share_beyond_it() -> None:
    buckets = ((0.1, 900.0), (0.2, 950.0), (0.3, 990.0), (0.4, 999.0), (inf, 1000.0))
    tails = [batch_tail_seconds(buckets, None, beyond) for beyond in (0.1, 0.05, 0.01, 0.001)]
    assert tails == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert batch_tail_seconds(buckets, None) == tails[2]


@given(times=st.lists(st.floats(0.001, 1.9), min_size=1, max_size=200))
def test_the_sharpened_p99_is_never_below_the_bucket_that_holds_it(times: list[float]) -> None:
    bounds = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, inf)
    buckets = tuple((bound, float(sum(t <= bound for t in times))) for bound in bounds)
    p99 = batch_tail_seconds(buckets, sums_of((1, t) for t in times))
    exact = sorted(times)[-(-99 * len(times) // 100) - 1]
    low = max((bound for bound in (0.0, *bounds) if bound < exact), default=0.0)
    assert p99 is not None
    assert p99 >= low - 1e-9
