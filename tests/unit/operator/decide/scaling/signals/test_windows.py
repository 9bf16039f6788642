"""Windows of raw counters, one per pod UID (docs/design/control-law.md#data)."""

from math import inf, nan

import pytest

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.counters import buckets, growth, per_second, total
from penstock_operator.decide.scaling.signals.windows import (
    MAX_SAMPLES,
    Windows,
    advance_windows,
    full_window,
    has_new_samples,
    sample_age,
)
from penstock_operator.observed import PodSample, PoolSignals, SignalSource

OLD = LawPod("a", ready=True, terminating=False, acknowledged=True, cap_bound=None, created=0.0)


def sample(
    time: float, rows: float | None, uid: str = "a", batches: float = 0.0, epoch: int = 0
) -> PodSample:
    curve = CurveSums(epoch=epoch, batches=batches)
    return PodSample(uid=uid, time=time, waiting=0.0, rows_received=rows, curve=curve)


def fed(
    *samples: PodSample,
    windows: Windows | None = None,
    source: SignalSource = SignalSource.PROMETHEUS,
    pod: LawPod = OLD,
) -> Windows:
    """Return the windows after one round for each sample, each at the time of its sample."""
    windows = windows or Windows()
    for sample in samples:
        windows = advance_windows(
            windows, PoolSignals(source, (sample,), queried_at=sample.time), (pod,), sample.time
        )
    return windows


def test_a_rate_needs_four_scrapes() -> None:
    windows = fed(*(sample(1000 + 5 * i, 10.0 * i) for i in range(3)))
    assert full_window(windows.pods["a"]) == ()
    windows = fed(sample(1015, 30), windows=windows)
    assert per_second(full_window(windows.pods["a"]), "rows_received") == pytest.approx(2.0)


def test_a_rate_needs_fewer_scrapes_over_the_time_of_four() -> None:
    windows = fed(sample(1000, 0.0), sample(1010, 20.0))
    assert full_window(windows.pods["a"]) == ()
    windows = fed(sample(1015, 30.0), windows=windows)
    assert per_second(full_window(windows.pods["a"]), "rows_received") == pytest.approx(2.0)


def test_a_decrease_in_any_counter_restarts_all_of_that_pods() -> None:
    windows = fed(*(sample(1000 + 5 * i, 10.0 * i, batches=i) for i in range(5)))
    windows = fed(sample(1025, 60, batches=0), windows=windows)
    assert len(windows.pods["a"]) == 1


def test_a_new_epoch_of_the_sums_restarts_too() -> None:
    windows = fed(*(sample(1000 + 5 * i, 10.0 * i) for i in range(5)))
    windows = fed(sample(1025, 60, batches=9, epoch=1), windows=windows)
    assert len(windows.pods["a"]) == 1


def test_a_pod_younger_than_two_scrapes_starts_at_zero() -> None:
    young = LawPod(
        "a", ready=True, terminating=False, acknowledged=True, cap_bound=None, created=995.0
    )
    windows = fed(sample(1000, 50), pod=young)
    assert growth(windows.pods["a"])["rows_received"] == 50


def timed(time: float, *buckets: tuple[float, float]) -> PodSample:
    return PodSample(uid="a", time=time, batch_duration_buckets=buckets)


def test_batches_grow_bound_by_bound_and_a_bound_that_only_one_scrape_has_does_not_count() -> None:
    windows = fed(timed(1000, (0.1, 2.0), (0.5, 3.0), (inf, 4.0)))
    windows = fed(timed(1005, (0.1, 5.0), (0.2, 5.0), (inf, 9.0)), windows=windows)
    grown = growth(windows.pods["a"])
    assert buckets(grown) == ((0.1, 3.0), (inf, 5.0))
    assert buckets(total([grown, grown])) == ((0.1, 6.0), (inf, 10.0))
    other = growth(fed(timed(0, (0.3, 0.0)), timed(5, (0.3, 1.0))).pods["a"])
    assert buckets(total([grown, other])) == ((0.1, 3.0), (0.3, 1.0), (inf, 5.0))


def test_a_bucket_that_fell_restarts_the_pod_also_where_its_bounds_are_new() -> None:
    windows = fed(timed(1000, (0.1, 2.0), (inf, 4.0)))
    assert len(fed(timed(1005, (0.1, 1.0), (inf, 9.0)), windows=windows).pods["a"]) == 1
    assert len(fed(timed(1005, (0.2, 1.0), (inf, 3.0)), windows=windows).pods["a"]) == 1
    assert len(fed(timed(1005, (0.2, 1.0), (inf, 4.0)), windows=windows).pods["a"]) == 2


def test_an_old_pod_first_seen_does_not_start_at_zero() -> None:
    windows = fed(sample(1000, 1e6))
    assert growth(windows.pods["a"]) == {}


def test_the_same_sample_again_moves_nothing() -> None:
    before = fed(*(sample(1000 + 5 * i, 10.0 * i) for i in range(5)))
    after = fed(sample(1020, 40), windows=before)
    assert after.pods == before.pods
    assert not has_new_samples(before, after)


def test_samples_out_of_order_are_put_in_order_and_late_ones_are_left_out() -> None:
    both = (sample(1005, 10), sample(1000, 0))
    windows = advance_windows(
        Windows(), PoolSignals(SignalSource.PROMETHEUS, both, queried_at=1005), (OLD,), 1005
    )
    assert [point.time for point in windows.pods["a"]] == [1000, 1005]
    assert fed(sample(1002, 5), windows=windows).pods == windows.pods


def test_ages_are_by_the_stores_clock() -> None:
    """The operator's clock is an hour off: it does not matter."""
    signals = PoolSignals(SignalSource.PROMETHEUS, (sample(5000, 1),), queried_at=5004)
    windows = advance_windows(Windows(), signals, (OLD,), 1400.0)
    assert sample_age(windows.pods["a"], 5004) == 4
    assert sample_age(windows.pods["a"], 5030) == 30
    assert sample_age(windows.pods["a"], 5030.5) is None


def test_a_change_of_source_clears_the_windows() -> None:
    windows = fed(*(sample(1000 + 5 * i, 10.0 * i) for i in range(5)))
    windows = fed(sample(1025, 50), windows=windows, source=SignalSource.PODS)
    assert len(windows.pods["a"]) == 1


def test_a_round_without_signals_forgets_nothing() -> None:
    windows = fed(*(sample(1000 + 5 * i, 10.0 * i) for i in range(5)))
    assert advance_windows(windows, PoolSignals(SignalSource.NONE), (OLD,), 1025) == windows


def test_pods_that_are_gone_are_forgotten() -> None:
    windows = fed(*(sample(1000 + 5 * i, 10.0 * i) for i in range(5)))
    assert advance_windows(windows, PoolSignals(SignalSource.PROMETHEUS), (), 1025).pods == {}


def test_a_window_is_bounded_in_time_and_in_number() -> None:
    windows = fed(*(sample(1000 + i, float(i)) for i in range(500)))
    assert len(windows.pods["a"]) <= MAX_SAMPLES
    slow = fed(*(sample(1000 + 30 * i, float(i)) for i in range(20)))
    assert len(slow.pods["a"]) == 4, "an idle pool, looked at every 30 s, still has a window"
    gap = fed(sample(1000, 0), sample(1000 + 3600, 1))
    assert len(gap.pods["a"]) == 1


@pytest.mark.parametrize("value", [nan, inf, -inf, -5.0, 1e300, None])
def test_a_bad_counter_is_absent(value: float | None) -> None:
    windows = fed(*(sample(1000 + 5 * i, value) for i in range(5)))
    assert per_second(windows.pods["a"], "rows_received") is None


@pytest.mark.parametrize("time", [nan, inf, -5.0, 1e12])
def test_a_sample_of_no_real_time_is_left_out(time: float) -> None:
    signals = PoolSignals(SignalSource.PODS, (sample(time, 1.0),))
    assert advance_windows(Windows(), signals, (OLD,), 1000.0).pods == {}
