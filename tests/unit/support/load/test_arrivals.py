"""Arrival times of the load generator, computed without a clock."""

import itertools

import pytest

from tests.support.load.arrivals import Arrivals, Process, Step, parse_schedule


def test_a_schedule_is_read_as_rates_and_seconds() -> None:
    assert parse_schedule("20x30,150x7.5") == (Step(20, 30), Step(150, 7.5))


@pytest.mark.parametrize("text", ["", "20", "x", "20x", "ax3", "20x-1"])
def test_a_bad_schedule_names_the_part_and_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="RATExSECONDS"):
        parse_schedule(text)


def test_constant_arrivals_are_evenly_spaced() -> None:
    arrivals = Arrivals(Process.CONSTANT, seed=1)
    assert list(arrivals.between(0, 1, rate=4)) == [0.25, 0.5, 0.75, 1.0]


def test_a_gap_continues_across_intervals() -> None:
    arrivals = Arrivals(Process.CONSTANT, seed=1)
    assert list(arrivals.between(0, 0.6, rate=1)) == []
    assert list(arrivals.between(0.6, 1.5, rate=1)) == pytest.approx([1.0])


def test_a_change_of_rate_applies_within_a_gap() -> None:
    arrivals = Arrivals(Process.CONSTANT, seed=1)
    assert list(arrivals.between(0, 5, rate=0.1)) == []
    assert arrivals.wait(10) == pytest.approx(0.05)
    assert next(arrivals.between(5, 6, rate=10)) == pytest.approx(5.05)


def test_a_rate_of_zero_sends_nothing_and_waits_forever() -> None:
    arrivals = Arrivals(Process.POISSON, seed=1)
    assert list(arrivals.between(0, 1e6, rate=0)) == []
    assert arrivals.wait(0) == float("inf")


def test_poisson_keeps_its_mean_and_its_spread() -> None:
    times = list(Arrivals(Process.POISSON, seed=7).between(0, 1000, rate=50))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.02)
    assert variance**0.5 / mean == pytest.approx(1, rel=0.03)


def test_the_same_seed_gives_the_same_times() -> None:
    first, second = (list(Arrivals(Process.POISSON, seed=3).between(0, 5, 20)) for _ in range(2))
    assert first == second
