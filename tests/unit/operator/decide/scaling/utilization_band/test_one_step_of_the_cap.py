"""The rule of the cap, case by case: one step from one set of figures."""

from dataclasses import replace

import pytest

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.signals.aggregates import MeasuredService
from penstock_operator.decide.scaling.utilization_band.batch_cap import (
    CapInput,
    next_cap,
    step_size,
)
from penstock_operator.decide.spec.law_settings import AllowedLateShares
from penstock_operator.observed import UtilizationSource
from tests.unit.operator.decide.scaling.signals.test_service_curve import sums_of
from tests.unit.operator.decide.scaling.world import SETTINGS

CURVE = sums_of((b, 0.040 + 0.005 * b) for b in (1, 4, 8, 12, 16) * 4)
"""t(16) = 120 ms, t(20) = 140 ms."""
AT_16 = CapInput(
    settings=replace(SETTINGS, objective_milliseconds=505),
    cap=16,
    memory_bound=None,
    waiting_per_replica=1.0,
    service=MeasuredService(
        0.7, UtilizationSource.NVML, CURVE, batch_tail_seconds=0.120, out_of_memory_splits=0.0
    ),
)
"""T = 0.45 * (505 - 5) = 225 ms: 37 rows."""


def seen(
    waiting: float | None = 1.0, bound: int | None = None, cap: int = 16, **service: object
) -> CapInput:
    """Return `AT_16`, changed."""
    changed = AT_16.service._replace(**service)  # type: ignore[arg-type]
    return AT_16._replace(waiting_per_replica=waiting, memory_bound=bound, cap=cap, service=changed)


@pytest.mark.parametrize(
    ("figures", "cap", "term"),
    [
        (seen(), 16, "InBand"),
        (seen(duty=0.95), 16, "InBand"),
        (seen(duty=0.7, batch_tail_seconds=0.3), 16, "InBand"),
        (seen(duty=0.95, batch_tail_seconds=0.3), 12, "BatchTime"),
        (seen(duty=0.90, batch_tail_seconds=0.3), 16, "InBand"),
        (seen(duty=None, batch_tail_seconds=0.3), 16, "InBand"),
        (seen(duty=0.95, out_of_memory_splits=1.0), 12, "MemoryPressure"),
        (seen(duty=0.7, out_of_memory_splits=1.0), 16, "InBand"),
        (seen(duty=0.95, bound=10), 12, "MemoryPressure"),
        (seen(duty=0.95, batch_tail_seconds=0.3, cap=1), 1, "SizeMin"),
        (seen(waiting=8.0), 16, "InBand"),
        (seen(waiting=8.1), 20, "Waiting"),
        (seen(waiting=None, duty=0.4), 20, "LowDuty"),
        (seen(duty=0.5), 16, "InBand"),
        (seen(waiting=30.0, duty=None), 20, "Waiting"),
        (seen(waiting=30.0, bound=18), 18, "Waiting"),
        (seen(waiting=30.0, bound=16), 16, "MemoryBound"),
        (seen(waiting=99.0, cap=64), 64, "SizeMax"),
        (seen(waiting=99.0, cap=34), 37, "Waiting"),
        (seen(waiting=99.0, cap=37), 37, "BatchTimeTarget"),
        (seen(waiting=30.0, sums=None, batch_tail_seconds=None), 16, "BatchTimeTarget"),
        (seen(waiting=30.0, duty=0.95, batch_tail_seconds=0.3), 12, "BatchTime"),
    ],
)
def test_one_step(figures: CapInput, cap: int, term: str) -> None:
    move = next_cap(figures)
    assert (move.cap, str(move.term)) == (cap, term), move.why


def test_the_spread_just_measured_is_expected_of_a_larger_batch_too() -> None:
    """p99 is 1.7 * t(16), so 20 rows may take 238 ms at p99, over 225; 18 rows 221 ms."""
    move = next_cap(seen(waiting=30.0, batch_tail_seconds=0.120 * 1.7))
    assert move.cap == 18


@pytest.mark.parametrize(("late", "said"), [(0.01, "p99 "), (0.05, "p95 "), (0.001, "p99.9 ")])
def test_the_reason_names_the_percentile_of_the_objective(late: float, said: str) -> None:
    figures = seen(duty=0.95, batch_tail_seconds=0.3)
    settings = replace(figures.settings, late=AllowedLateShares(late))
    assert f"the {said}batch time is 300 ms" in next_cap(figures._replace(settings=settings)).why


def test_without_an_objective_no_prediction_is_needed() -> None:
    free = seen(waiting=30.0, sums=None, batch_tail_seconds=None)._replace(
        settings=replace(SETTINGS, objective_milliseconds=None),
    )
    assert next_cap(free).cap == 20


def test_a_step_is_a_quarter_rounded_up_and_at_least_one() -> None:
    assert [step_size(cap) for cap in (1, 4, 5, 8, 9, 30)] == [1, 1, 2, 2, 3, 8]


def test_no_batches_are_no_curve() -> None:
    assert next_cap(seen(waiting=30.0, sums=CurveSums())).term == "BatchTimeTarget"
