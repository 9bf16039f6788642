"""The parts of a start from zero add up to the wait of its first request."""

import pytest
from msgspec import convert

from penstock_api.hold import StartPart
from penstock_gateway.hold.starts import (
    BOUNDS,
    ORDER,
    SEEN_SECONDS,
    Durations,
    StartTimes,
    progress,
)
from penstock_gateway.objects import WatchedPod
from tests.support.gateway.api_server import Json, pod

NOW = 1000.0


def started(*ends: float) -> StartTimes:
    """Return times of a start that began at `NOW`, whose parts ended so many seconds later."""
    times = StartTimes()
    times.begin("demo", NOW, NOW)
    for number, end in enumerate(ends):
        times.reach("demo", number + 1, NOW + end)
    return times


def test_each_part_lasts_from_the_end_of_the_one_before() -> None:
    times = started(0.25, 0.5, 2.5, 12.5, 12.625, 12.75)
    seconds = (0.25, 0.25, 2.0, 10.0, 0.125, 0.125)
    assert times.last["demo"].parts == dict(zip(StartPart, seconds, strict=True))
    assert times.last["demo"].as_json()["ended"] == NOW + 12.75
    assert times.under_way == {}
    assert times.durations["demo", StartPart.MODEL].seconds == 10


def test_parts_that_were_not_seen_to_end_take_no_time_of_their_own() -> None:
    times = started(0.5)
    times.reach("demo", 4, NOW + 8)
    times.reach("demo", 2, NOW + 9)  # its pod was replaced
    times.reach("demo", len(ORDER), NOW + 10)
    assert list(times.last["demo"].parts.values()) == [0.5, 7.5, 0, 0, 2, 0]


def test_a_pod_that_was_there_when_the_request_came_took_no_decision() -> None:
    times = StartTimes()
    times.begin("demo", NOW, NOW + 0.125)
    times.reach("demo", 3, NOW + 0.125)
    times.reach("demo", len(ORDER), NOW + 4)
    assert list(times.last["demo"].parts.values()) == [0.125, 0, 0, 3.875, 0, 0]


def test_a_start_that_a_former_process_saw_begin_or_that_no_request_waits_for_does_not_count() -> (
    None
):
    times = StartTimes()
    times.begin("demo", NOW, NOW + 2 * SEEN_SECONDS)
    times.begin("other", NOW, NOW)
    times.drop("other")
    for pool in ("demo", "other"):
        times.reach(pool, len(ORDER), NOW + 9)
    assert times.last == {}
    assert times.durations == {}


def test_a_start_counts_once_in_the_bucket_of_its_time() -> None:
    durations = Durations()
    for seconds in (0.004, 0.005, 700.0):
        durations.add(seconds)
    assert durations.counts == [2, *[0] * (len(BOUNDS) - 1), 1]
    assert durations.seconds == pytest.approx(700.009)


def starting(*conditions: str, runs: bool = False, deleting: bool = False) -> WatchedPod:
    """Return a pod with these conditions."""
    item = pod("pod-0", "demo", "127.0.0.1", deleting=deleting)
    item["status"]["conditions"] = [{"type": name, "status": "True"} for name in conditions]
    state: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if runs else {"waiting": {}}
    item["status"]["containerStatuses"] = [{"state": state}]
    return convert(item, WatchedPod)


def test_a_pod_is_as_far_as_its_status_says_and_a_pool_as_its_furthest_pod() -> None:
    pods = [
        starting(),
        starting("PodScheduled"),
        starting("PodScheduled", runs=True),
        starting("PodScheduled", "Ready", runs=True),
    ]
    assert [progress([each]) for each in pods] == [1, 2, 3, 4]
    assert progress(pods[:3]) == 3
    assert progress([]) == 0
    assert progress([starting("PodScheduled", "Ready", runs=True, deleting=True)]) == 0
