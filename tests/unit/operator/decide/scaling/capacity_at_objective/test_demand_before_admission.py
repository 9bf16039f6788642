"""Demand (docs/design/control-law.md#demand): counted before admission, at most twice what was admitted, deleted pods included."""

import pytest

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.capacity_at_objective.demand.load import (
    PoolDemand,
    at_gateway,
    load,
)
from penstock_operator.decide.scaling.law import DemandSource, LawPod
from penstock_operator.decide.scaling.signals.counters import point
from penstock_operator.decide.scaling.signals.offered_rows import offered_rows
from penstock_operator.decide.scaling.signals.windows import Window, recent_windows
from penstock_operator.observed import OfferedDemand, PodSample


def pod(uid: str) -> LawPod:
    return LawPod(uid, ready=True, terminating=False, acknowledged=True, cap_bound=None)


def lived(rates: list[float], served: float = 0.0, waiting: float = 0.0, rows: int = 1) -> Window:
    """A pod that received so many rows a second in each 5 s interval; it queues `waiting` more a second."""
    received, points = 0.0, []
    for i, rate in enumerate([0.0, *rates]):
        received += 5 * rate
        sums = CurveSums(batches=i, cost_units=served * 5 * i, seconds=i)
        sample = PodSample(
            "any",
            1000.0 + 5 * i,
            waiting=waiting * 5 * i / rows,
            rows_received=received,
            requests_received=received / rows,
            curve=sums,
        )
        points.append(point(sample))
    return tuple(points)


def seen(
    windows: dict[str, Window],
    gone: dict[str, Window] | None = None,
    offered: OfferedDemand | None = None,
) -> PoolDemand:
    asked = max(window[-1].time for window in windows.values())
    recent = recent_windows([pod(uid) for uid in windows], windows, gone or {}, asked)
    demand = load(recent, slack_rows=0.0)
    return at_gateway(demand, offered_rows(offered, windows.values()))


def test_pods_that_loaded_until_now_count_in_demand_and_not_in_unevenness() -> None:
    """They answer while they load, so that their windows begin with zeros."""
    windows = {"old": lived([40.0] * 6), "new": lived([0.0] * 5 + [40.0])}
    pods = [pod("old")._replace(ready_since=0.0), pod("new")._replace(ready_since=1025.0)]
    demand = load(recent_windows(pods, windows, {}, 1030.0), slack_rows=1e9)
    assert demand.newest == pytest.approx(80)
    assert (demand.imbalance, demand.unevenness) == (1, None)
    later = {"old": lived([40.0] * 9), "new": lived([0.0] * 5 + [40.0] * 4)}
    demand = load(recent_windows(pods, later, {}, 1045.0), slack_rows=1e9)
    assert (demand.imbalance, demand.unevenness) == (1, 0)


def test_demand_is_what_arrives_over_all_pods() -> None:
    demand = seen({"a": lived([10.0] * 6, served=10), "b": lived([20.0] * 6, served=20)})
    assert (demand.recent, demand.newest) == (30, 30)


def test_shorter_windows_see_a_step_sooner() -> None:
    demand = seen({"a": lived([10.0, 10.0, 10.0, 10.0, 10.0, 40.0], served=20)})
    assert demand.recent == pytest.approx(20)
    assert demand.newest == pytest.approx(40)


def test_rejected_load_counts_up_to_twice_what_was_admitted() -> None:
    assert seen({"a": lived([150.0] * 6, served=100)}).recent == pytest.approx(150)
    assert seen({"a": lived([900.0] * 6, served=100)}).recent == pytest.approx(200)


def test_what_waits_was_admitted() -> None:
    assert seen({"a": lived([900.0] * 6, served=100, waiting=800)}).recent == pytest.approx(900)


def test_a_backlog_is_counted_in_rows() -> None:
    demand = seen({"a": lived([80.0] * 6, served=80, waiting=8.0, rows=8)})
    assert demand.backlog == pytest.approx(240)


def test_a_deleted_pod_is_no_dip_in_demand() -> None:
    """Half of the demand moves from a pod that ends to one that stays."""
    before, after = lived([20.0] * 3, served=20), lived([20.0] * 3 + [40.0] * 3, served=30)
    alone = seen({"stays": after})
    demand = seen({"stays": after}, gone={"went": before})
    assert alone.recent == pytest.approx(40)
    assert demand.recent == pytest.approx(50)


def test_the_busiest_pod_stands_out_beyond_chance() -> None:
    even = {uid: lived([20.0] * 6) for uid in "abcd"}
    assert seen(even).imbalance == 1
    assert seen(even).unevenness == 0
    skewed = {**even, "e": lived([80.0] * 6)}
    demand = seen(skewed)
    assert demand.imbalance == pytest.approx(80 / 32, rel=0.05)
    assert demand.unevenness is not None
    assert demand.unevenness > 0.5


def test_windows_of_several_lengths_make_no_pod_busier() -> None:
    """Two pods are new, one lost a scrape, and none has more load than another."""
    whole = lived([20.0] * 6)
    demand = seen({"a": whole, "b": whole[2:], "c": whole[2:], "d": (*whole[:4], *whole[5:])})
    assert demand.unevenness == 0
    assert demand.imbalance == 1
    skewed = seen({"a": whole, "b": lived([80.0] * 6)[2:]})
    assert skewed.imbalance == pytest.approx(80 / 50, rel=0.1)


def test_bursts_are_dispersion_and_a_trend_or_a_step_is_not() -> None:
    bursty = seen({"a": lived([0.0, 40.0, 0.0, 40.0, 0.0, 40.0])}).dispersion
    rising = seen({"a": lived([10.0, 12.0, 14.0, 16.0, 18.0, 20.0])}).dispersion
    step = seen({"a": lived([10.0, 10.0, 10.0, 40.0, 40.0, 40.0])}).dispersion
    assert bursty == pytest.approx(200), "the variance of 0 or 200 over their mean, in differences"
    assert rising is not None
    assert rising < 1
    assert step == 0


def test_nothing_seen_is_absent() -> None:
    demand = load(recent_windows([pod("a")], {}, {}, 1000.0), 0.0)
    assert (demand.recent, demand.newest, demand.imbalance) == (None,) * 3


def test_a_gateway_counts_what_it_holds_as_well_and_requests_in_rows() -> None:
    pods = {"a": lived([40.0] * 6, served=40, rows=4)}
    demand = seen(pods, offered=OfferedDemand(recent=25.0, newest=30.0, window=25.0))
    assert (demand.recent, demand.newest) == pytest.approx((100.0, 120.0))
    assert demand.source is DemandSource.GATEWAY


def test_a_request_that_was_sent_again_counts_once() -> None:
    pods = {"a": lived([105.0] * 6, served=105)}
    demand = seen(pods, offered=OfferedDemand(100.0, 100.0, 100.0))
    assert demand.recent == pytest.approx(100)
    assert demand.source is DemandSource.GATEWAY


def test_clients_that_reach_pods_directly_are_demand_too() -> None:
    pods = {"a": lived([150.0] * 6, served=150)}
    demand = seen(pods, offered=OfferedDemand(100.0, 100.0, 100.0))
    assert demand.recent == pytest.approx(150)
    assert demand.source is DemandSource.PODS


def test_rejected_clients_that_retry_at_the_gateway_count_up_to_twice_what_was_admitted() -> None:
    pods = {"a": lived([900.0] * 6, served=100)}
    assert seen(pods, offered=OfferedDemand(900.0, 900.0, 900.0)).recent == pytest.approx(200)


def test_a_gateway_is_no_demand_of_pods_without_signals() -> None:
    (window,) = (lived([0.0] * 6),)
    assert seen({"a": window[:1]}, offered=OfferedDemand(5.0, 5.0, 5.0)).recent is None
