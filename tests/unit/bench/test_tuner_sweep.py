"""The bench of the tuner: its objectives, and the best settings of a sweep."""

from penstock_tuner.load import Tally
from penstock_tuner.settings import Latencies, TunedSettings
from tests.bench.tuner.measuring import SweptSettings, best_of, objectives
from tests.bench.tuner.plan import SPACE, settings


def swept(batch: int, milliseconds: float, requests: int) -> SweptSettings:
    return SweptSettings(
        TunedSettings(batch, 0), Tally(0.0, 2.0, [Latencies(milliseconds / 1000)] * requests)
    )


SWEEP = [swept(batch, 10.2 * batch, 100 * batch) for batch in range(1, 5)]


def test_a_quarter_and_three_quarters_of_the_settings_meet_the_objectives() -> None:
    assert objectives(SWEEP) == [21, 41]
    assert [sum(each.within(21).attainment == 1 for each in SWEEP), len(SWEEP)] == [2, 4]


def test_the_best_has_the_highest_goodput_of_those_that_meet_the_objective() -> None:
    best = best_of(SWEEP, 21)
    assert best is not None
    assert (best.settings.batch_size, best.within(21).goodput) == (2, 100.0)
    assert best_of(SWEEP, 5) is None


def test_the_space_has_every_pair_once() -> None:
    every = list(settings())
    assert len(every) == len(set(every)) == SPACE.max_batch_size * 5
