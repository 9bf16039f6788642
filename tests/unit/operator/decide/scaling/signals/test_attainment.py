"""Attainment: requests on time, counted per pod from the pods' own counters, and never decreasing."""

from dataclasses import replace
from math import inf

import pytest

from penstock_operator.decide.scaling.signals.attainment import (
    Attainment,
    Objectives,
    advance,
    within,
)
from penstock_operator.decide.spec.law_settings import AllowedLateShares
from penstock_operator.observed import GenerationSample, PodSample

ON_TIME = Objectives(1000)
BUCKETS = (0.5, 1.0, 2.0, inf)


def sample(uid: str, time: float, counts: tuple[float, ...], settled: float) -> PodSample:
    """Return a sample with cumulative counts of completed requests under each bound, and all requests that ended."""
    buckets = tuple(zip(BUCKETS, counts, strict=True))
    return PodSample(uid, time, requests_settled=settled, request_duration_buckets=buckets)


def run(*rounds: list[PodSample], objective: int | None = 1000) -> tuple[float, float]:
    attainment = Attainment()
    for samples in rounds:
        attainment = advance(attainment, samples, Objectives(objective))
    return attainment.good, attainment.total


def test_good_counts_completions_within_the_objective_and_total_every_end() -> None:
    before = [sample("a", 0, (10, 20, 25, 30), 40)]
    after = [sample("a", 5, (20, 90, 95, 100), 140)]
    assert run(before, after) == (70, 100)


def test_requests_count_once_after_a_clock_was_set_back() -> None:
    def ticks(begin: float, settled: int, now: float) -> list[PodSample]:
        """Return a round with the sample of this tick and the one before."""
        counts = [(begin, settled - 10), (now, settled)]
        return [sample("a", time, (count,) * 4, count) for time, count in counts]

    attainment = advance(Attainment(), ticks(7200, 10, 7205), ON_TIME)
    attainment = advance(attainment.until(100), ticks(95, 20, 100), ON_TIME)
    assert attainment.total == 10
    attainment = advance(attainment, ticks(100, 30, 105), ON_TIME)
    assert attainment.total == 30
    assert advance(attainment.until(105), ticks(100, 30, 105), ON_TIME).total == 30


def test_an_objective_between_two_bounds_is_interpolated() -> None:
    after = [sample("a", 5, (0, 40, 80, 80), 100)]
    assert run([sample("a", 0, (0, 0, 0, 0), 0)], after, objective=1500) == (60, 100)


def test_without_an_objective_every_completed_request_is_good() -> None:
    after = [sample("a", 5, (0, 40, 80, 90), 100)]
    assert run([sample("a", 0, (0, 0, 0, 0), 0)], after, objective=None) == (90, 100)


def test_samples_that_arrive_twice_count_once() -> None:
    first, second = [sample("a", 0, (0, 0, 0, 0), 0)], [sample("a", 5, (0, 9, 9, 9), 10)]
    assert run(first, second, second, first) == (9, 10)


def test_a_new_pod_with_earlier_counts_counts_from_its_first_sample() -> None:
    assert run([sample("a", 0, (50, 60, 70, 80), 90)]) == (0, 0)


def test_a_restart_of_a_pod_subtracts_nothing() -> None:
    rounds = [
        [sample("a", 0, (0, 0, 0, 0), 0)],
        [sample("a", 5, (0, 9, 9, 9), 10)],
        [sample("a", 10, (0, 0, 0, 0), 1)],
        [sample("a", 15, (0, 4, 4, 4), 6)],
    ]
    assert run(*rounds) == (13, 15)


def test_pods_are_counted_separately_and_ended_pods_are_dropped() -> None:
    attainment = advance(
        Attainment(), [sample("a", 0, (0,) * 4, 0), sample("b", 0, (0,) * 4, 0)], ON_TIME
    )
    attainment = advance(
        attainment, [sample("a", 5, (1, 1, 1, 1), 2), sample("b", 5, (3, 3, 3, 3), 3)], ON_TIME
    )
    assert (attainment.good, attainment.total) == (4, 5)
    later = advance(attainment, [sample("a", 1000, (1, 1, 1, 1), 2)], ON_TIME)
    assert set(later.last) == {"a"}


def test_a_sample_without_these_counters_is_skipped() -> None:
    silent = [PodSample("a", 5.0, waiting=3.0)]
    assert run([sample("a", 0, (0,) * 4, 0)], silent, [sample("a", 9, (5, 5, 5, 5), 5)]) == (5, 5)


@pytest.mark.parametrize(("limit", "count"), [(0.25, 5), (0.5, 10), (3.0, 30), (inf, 40)])
def test_requests_within_a_limit(limit: float, count: float) -> None:
    assert within(tuple(zip(BUCKETS, (10, 20, 30, 40), strict=True)), limit) == count


def test_lateness_counts_in_proportion_to_what_the_strictest_objective_allows() -> None:
    """10 of 100 late under 90 percent spend as much of what is allowed as 1 under 99 percent."""
    before = replace(sample("a", 0, (0,) * 4, 0), generation=GenerationSample(1, ()))
    buckets = tuple(zip(BUCKETS, (0, 90, 100, 100), strict=True))
    after = replace(
        sample("a", 5, (100,) * 4, 100),
        generation=GenerationSample(1, (), first_token_buckets=buckets),
    )
    late = AllowedLateShares(request=0.01, first_token=0.1)
    loose, alone = Objectives(1000, 1000, late=late), Objectives(first_token=1000, late=late)
    for objectives, good in ((Objectives(1000, 1000), 90), (loose, 99), (alone, 90)):
        attainment = advance(advance(Attainment(), [before], objectives), [after], objectives)
        assert attainment.good == pytest.approx(good)
        assert attainment.total == 100
    assert (loose.late_share, alone.late_share, Objectives().late_share) == (0.01, 0.1, 0.01)


def test_of_several_objectives_the_most_missed_counts() -> None:
    def tokens(time: float, first: tuple[float, ...], each: tuple[float, ...]) -> PodSample:
        generation = GenerationSample(
            1,
            (),
            first_token_buckets=tuple(zip(BUCKETS, first, strict=True)),
            output_token_buckets=tuple(zip(BUCKETS, each, strict=True)),
        )
        whole = (0, 2, 4, first[-1]) if time else (0,) * 4
        ended = sample("a", time, whole, first[-1])
        return replace(ended, generation=generation)

    rounds = [tokens(0, (0,) * 4, (0,) * 4), tokens(5, (7, 9, 10, 10), (3, 5, 6, 8))]
    assert run(*([samples] for samples in rounds), objective=None) == (10, 10)
    for objectives, good in (
        (Objectives(first_token=1000), 9),
        (Objectives(first_token=500), 7),
        (Objectives(output_token=1000), 7),
        (Objectives(first_token=1000, output_token=500), 5),
        (Objectives(request=2000, first_token=1000), 4),
    ):
        attainment = Attainment()
        for samples in rounds:
            attainment = advance(attainment, [samples], objectives)
        assert (attainment.good, attainment.total) == (good, 10), (
            "two answers of one token have no time between tokens"
        )
