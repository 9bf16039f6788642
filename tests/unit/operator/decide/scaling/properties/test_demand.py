"""Demand, its forecast, starts and lateness: finite and inside their bounds, whatever came."""

from itertools import accumulate, pairwise
from math import isfinite

import pytest
from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective import lateness_price
from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import (
    MAX_SECONDS,
    MIN_SECONDS,
    Startup,
    p90_seconds,
    stuck_seconds,
    watch,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import (
    DemandSample,
    Forecaster,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast_errors import (
    MAX_ERRORS,
    ForecastError,
    ForecastErrors,
    at_points,
    likely_errors,
    quantile,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand.load import load
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.aggregates import demand, service
from penstock_operator.decide.scaling.signals.attainment import Objectives
from penstock_operator.decide.scaling.signals.counters import Counters, Point
from penstock_operator.decide.scaling.signals.windows import WINDOW_SCRAPES, recent_windows
from penstock_operator.observed import PodSample, PoolSignals, SignalSource
from tests.unit.operator.decide.scaling.properties.holds import MEASURED, OBJECTIVES, holds

SAMPLES = st.lists(
    st.tuples(
        st.sampled_from((0.0, 0.1, 5.0, 5.0, 5.0, 30.0, 3600.0, 40_000.0)),
        st.builds(DemandSample, MEASURED, MEASURED),
    ),
    max_size=40,
)
"""With the seconds since the one before: hours may be missing."""
HORIZON = st.floats(1, 1805)


@holds(samples=SAMPLES, horizon=HORIZON)
def test_a_forecast_is_a_demand(samples: list[tuple[float, DemandSample]], horizon: float) -> None:
    known, now = Forecaster(), 1e9
    for passed, sample in samples:
        now += passed
        known, _ = forecast.advance(known, sample, horizon, now)
    ahead = forecast.outlook(known, horizon)
    expected, most = ahead.expected, ahead.upper
    assert 0 <= expected <= most
    assert isfinite(most)
    assert 0 <= forecast.persistence(known) <= 1
    slope, sure = forecast.ramp(known)
    assert slope >= 0
    assert isfinite(slope)
    assert 0 <= sure <= 1
    assert isfinite(forecast.climb(known, horizon))
    likely = forecast.likely_demands(ahead)
    assert sum(share for share, _ in likely) == pytest.approx(1)
    demands = [demand_ for _, demand_ in likely]
    assert all(0 <= low <= high for low, high in pairwise(demands))
    assert len(known.pending) <= forecast.MAX_PENDING


@holds(rate=MEASURED, ticks=st.integers(1, 60), horizon=HORIZON)
def test_steady_demand_is_forecast_as_it_is(rate: float, ticks: int, horizon: float) -> None:
    known = Forecaster()
    for tick in range(ticks):
        sample = DemandSample(rate, rate)
        known, _ = forecast.advance(known, sample, horizon, 1e9 + 5 * tick)
    assert forecast.outlook(known, horizon).expected == pytest.approx(rate, rel=1e-6)


MISSES = st.lists(st.builds(ForecastError, MEASURED, st.floats(-1e15, 1e15)), max_size=60)


@holds(
    misses=MISSES, expected=MEASURED, level=MEASURED, at=st.tuples(st.floats(0, 1), st.floats(0, 1))
)
def test_misses_have_quantiles_that_rise(
    misses: list[ForecastError], expected: float, level: float, at: tuple[float, float]
) -> None:
    known = ForecastErrors()
    for share in misses:
        known = known.add(share)
    assert known == ForecastErrors.of(misses)
    assert len(known.latest) <= MAX_ERRORS
    errors = likely_errors(known, expected, level)
    assert list(errors) == sorted(errors)
    low, high = (quantile(errors, share) for share in sorted(at))
    slack = 1e-9 * max(map(abs, errors))
    assert errors[0] - slack <= low <= high + slack
    assert high <= errors[-1] + slack
    assert sum(share for share, _ in at_points(errors)) == pytest.approx(1)


def test_misses_beyond_those_kept_are_forgotten_oldest_first() -> None:
    known = ForecastErrors.of(
        ForecastError(float(number % 7), float(number)) for number in range(MAX_ERRORS)
    )
    known = known.add(ForecastError(1.0, -1.0))
    assert len(known.latest) == len(known.alike) == MAX_ERRORS
    assert known.latest[0].by == 1.0


def pod(number: int, *, ready: bool) -> LawPod:
    return LawPod(str(number), ready=ready, terminating=False, acknowledged=True, cap_bound=None)


COUNTS = st.lists(MEASURED, min_size=1, max_size=8)
WINDOWS = st.lists(
    st.tuples(COUNTS, COUNTS, MEASURED, st.booleans(), st.booleans()), min_size=0, max_size=6
)
"""Per pod: rows and batches between scrapes, the queue, whether it is Ready, and whether it publishes rows."""


def window_of(
    rows: list[float], busy: list[float], waiting: float, *, tells: bool
) -> tuple[Point, ...]:
    names = ("rows_received", "requests_received") if tells else ()
    points = []
    for at, (received, seconds) in enumerate(zip(accumulate(rows), accumulate(busy), strict=False)):
        counters: Counters = {
            **dict.fromkeys(names, received),
            "cost_units": seconds,
            "seconds": seconds,
        }
        points.append(Point(1000.0 + 5 * at, waiting, None, None, 0, counters, waiting))
    return tuple(points)


@holds(pods_drawn=WINDOWS, late=st.floats(0, 40), slack=st.integers(1, 4096).map(float))
def test_demand_is_measured_or_absent(
    pods_drawn: list[tuple[list[float], list[float], float, bool, bool]], late: float, slack: float
) -> None:
    pods = [pod(number, ready=drawn[3]) for number, drawn in enumerate(pods_drawn)]
    windows = {
        str(number): window_of(rows, busy, waiting, tells=tells)
        for number, (rows, busy, waiting, _, tells) in enumerate(pods_drawn)
    }
    asked = 1000 + max([drawn[-1].time - 1000 for drawn in windows.values()], default=0.0) + late
    recent = recent_windows(pods, windows, {}, asked)
    measured = load(recent, slack)
    ready = sum(drawn.ready for drawn in pods)
    for rate in (
        measured.recent,
        measured.newest,
        measured.backlog,
        measured.dispersion,
    ):
        assert rate is None or (isfinite(rate) and rate >= 0)
    assert measured.imbalance is None or 1 <= measured.imbalance <= max(ready, 1)
    assert measured.unevenness is None or 0 <= measured.unevenness <= ready * (1 + 1e-9)
    seen = demand(recent)
    assert 0 <= seen.sampled <= seen.ready == ready
    assert 0 <= seen.unmeasured <= ready
    worked = service(recent, 0.0)
    assert worked.duty is None or 0 <= worked.duty <= 1
    assert worked.pod_seconds <= 5.0 * WINDOW_SCRAPES * 2 * len(pods)


STARTS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.booleans(),
        st.booleans(),
        st.one_of(st.none(), st.floats(-5000, 5000)),
        st.one_of(st.none(), st.floats(-5000, 5000)),
    ),
    max_size=40,
)


@holds(starts=STARTS, steps=st.lists(st.floats(0, 4000), max_size=8))
def test_start_up_is_between_a_second_and_half_an_hour(
    starts: list[tuple[int, bool, bool, float | None, float | None]], steps: list[float]
) -> None:
    known, now = Startup(), 1e6
    for at, passed in enumerate([0.0, *steps]):
        now += passed
        pods = [
            LawPod(
                str(uid), ready=ready, terminating=False, acknowledged=True, cap_bound=None,
                scheduled_since=None if bound is None else 1e6 + bound,
                ready_since=None if since is None else 1e6 + since, failing=failing,
            )
            for uid, ready, failing, bound, since in starts[5 * at : 5 * at + 10]
        ]  # fmt: skip
        known = watch(known, pods, now)
        p90 = p90_seconds(known, now)
        assert MIN_SECONDS <= p90 <= MAX_SECONDS
        assert stuck_seconds(known) >= 600
    late = now + stuck_seconds(known) + 1e4
    assert p90_seconds(known, late) == p90_seconds(Startup(finished=known.finished), late)


@holds(
    samples=st.lists(st.tuples(st.floats(0, 100), MEASURED, MEASURED, MEASURED), max_size=12),
    objective=OBJECTIVES,
)
def test_the_price_of_lateness_stays_inside_its_bounds(
    samples: list[tuple[float, float, float, float]], objective: int | None
) -> None:
    known, now, price = (
        lateness_price.Lateness(lateness_price.INITIAL_PRICE),
        1000.0,
        lateness_price.INITIAL_PRICE,
    )
    for passed, settled, within, all_of_them in samples:
        now += passed
        buckets = (
            (0.05, min(within, all_of_them)),
            (1.0, all_of_them),
            (float("inf"), all_of_them),
        )
        sample = PodSample("a", now, requests_settled=settled, request_duration_buckets=buckets)
        signals = PoolSignals(SignalSource.PODS, (sample,))
        known, late = lateness_price.count_late(known, signals, Objectives(objective), now)
        if late is not None:
            assert isfinite(late)
            before, known = known.lateness_price, lateness_price.reprice(known, late)
            price = known.lateness_price
            assert (price >= before) if late > 0 else (price <= before)
        assert lateness_price.MIN_PRICE <= price <= lateness_price.MAX_PRICE
        assert known.typical is None or (isfinite(known.typical) and known.typical > 0)
