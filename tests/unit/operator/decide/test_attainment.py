"""Requests on time are counted from the pods' own counters, by pod, and never backwards."""

from dataclasses import replace
from math import inf

import pytest

from penstock_operator.decide.scaling.signals.attainment import (
    Attainment,
    Objectives,
    advance,
    within,
)
from penstock_operator.observed import GenerationSample, PodSample

ON_TIME = Objectives(1000)
BUCKETS = (0.5, 1.0, 2.0, inf)


def sample(uid: str, time: float, counts: tuple[float, ...], settled: float) -> PodSample:
    """Cumulative counts of completed requests under each bound, and all that ended."""
    buckets = tuple(zip(BUCKETS, counts, strict=True))
    return PodSample(uid, time, requests_settled=settled, request_duration_buckets=buckets)


def run(*rounds: list[PodSample], objective: int | None = 1000) -> tuple[float, float]:
    found = Attainment()
    for one in rounds:
        found = advance(found, one, Objectives(objective))
    return found.good, found.total


def test_good_is_completed_within_the_objective_and_all_is_everything_that_ended() -> None:
    before = [sample("a", 0, (10, 20, 25, 30), 40)]
    after = [sample("a", 5, (20, 90, 95, 100), 140)]
    assert run(before, after) == (70, 100)


def test_an_objective_between_two_bounds_is_interpolated() -> None:
    after = [sample("a", 5, (0, 40, 80, 80), 100)]
    assert run([sample("a", 0, (0, 0, 0, 0), 0)], after, objective=1500) == (60, 100)


def test_without_an_objective_all_that_was_completed_is_good() -> None:
    after = [sample("a", 5, (0, 40, 80, 90), 100)]
    assert run([sample("a", 0, (0, 0, 0, 0), 0)], after, objective=None) == (90, 100)


def test_the_same_samples_seen_twice_count_once() -> None:
    first, second = [sample("a", 0, (0, 0, 0, 0), 0)], [sample("a", 5, (0, 9, 9, 9), 10)]
    assert run(first, second, second, first) == (9, 10)


def test_a_pod_met_with_a_past_counts_only_from_then_on() -> None:
    assert run([sample("a", 0, (50, 60, 70, 80), 90)]) == (0, 0)


def test_a_pod_that_restarts_takes_nothing_back() -> None:
    rounds = [
        [sample("a", 0, (0, 0, 0, 0), 0)],
        [sample("a", 5, (0, 9, 9, 9), 10)],
        [sample("a", 10, (0, 0, 0, 0), 1)],
        [sample("a", 15, (0, 4, 4, 4), 6)],
    ]
    assert run(*rounds) == (13, 15)


def test_pods_are_counted_each_by_itself_and_the_gone_are_forgotten() -> None:
    found = advance(
        Attainment(), [sample("a", 0, (0,) * 4, 0), sample("b", 0, (0,) * 4, 0)], ON_TIME
    )
    found = advance(
        found, [sample("a", 5, (1, 1, 1, 1), 2), sample("b", 5, (3, 3, 3, 3), 3)], ON_TIME
    )
    assert (found.good, found.total) == (4, 5)
    later = advance(found, [sample("a", 1000, (1, 1, 1, 1), 2)], ON_TIME)
    assert set(later.last) == {"a"}


def test_a_sample_that_tells_neither_is_passed_over() -> None:
    silent = [PodSample("a", 5.0, waiting=3.0)]
    assert run([sample("a", 0, (0,) * 4, 0)], silent, [sample("a", 9, (5, 5, 5, 5), 5)]) == (5, 5)


@pytest.mark.parametrize(("limit", "count"), [(0.25, 5), (0.5, 10), (3.0, 30), (inf, 40)])
def test_what_is_within_a_limit(limit: float, count: float) -> None:
    assert within(tuple(zip(BUCKETS, (10, 20, 30, 40), strict=True)), limit) == count


def test_of_several_objectives_the_one_that_most_missed_counts() -> None:
    def told(time: float, first: tuple[float, ...], each: tuple[float, ...]) -> PodSample:
        tokens = GenerationSample(
            1,
            (),
            first_token_buckets=tuple(zip(BUCKETS, first, strict=True)),
            output_token_buckets=tuple(zip(BUCKETS, each, strict=True)),
        )
        whole = (0, 2, 4, first[-1]) if time else (0,) * 4
        ended = sample("a", time, whole, first[-1])
        return replace(ended, generation=tokens)

    rounds = [told(0, (0,) * 4, (0,) * 4), told(5, (7, 9, 10, 10), (3, 5, 6, 8))]
    assert run(*([one] for one in rounds), objective=None) == (10, 10)
    for objectives, good in (
        (Objectives(first_token=1000), 9),
        (Objectives(first_token=500), 7),
        (Objectives(output_token=1000), 7),
        (Objectives(first_token=1000, output_token=500), 5),
        (Objectives(request=2000, first_token=1000), 4),
    ):
        found = Attainment()
        for one in rounds:
            found = advance(found, [one], objectives)
        assert (found.good, found.total) == (good, 10), (
            "two answers had one token, and no time between"
        )
