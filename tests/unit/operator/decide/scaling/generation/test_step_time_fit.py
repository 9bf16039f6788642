"""The time of a step is found from 15 sums, and never falls with more work."""

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    StepSums,
    add_steps,
    parse_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import fit, solve

from .world import DEVICE, sums_of

Shape = tuple[float, float, float]


def steps(shapes: Iterable[Shape], noise: float = 0.0) -> StepSums:
    chance = Random(1)  # noqa: S311 - a story, not a secret
    each = (
        (shape, DEVICE.seconds(*shape) * (1 + noise * chance.uniform(-1, 1))) for shape in shapes
    )
    return add_steps((StepSums(*sums_of(*shape, seconds)), 1.0) for shape, seconds in each)


def test_steps_of_all_sorts_tell_each_cost() -> None:
    chance = Random(2)  # noqa: S311
    shapes = [
        (chance.choice((0, 0, 64, 256)), rows, rows * chance.uniform(50, 500))
        for rows in (chance.randint(1, 60) for _ in range(400))
    ]
    fitted = fit(steps(shapes, noise=0.02))
    assert fitted is not None
    for cost, real, share in (
        (fitted.a, DEVICE.a, 0.05),
        (fitted.p, DEVICE.p, 0.05),
        (fitted.d, DEVICE.d, 0.1),
        (fitted.k, DEVICE.k, 0.1),
    ):
        assert cost == pytest.approx(real, rel=share)
    assert fitted.r_squared is not None
    assert 0.95 < fitted.r_squared <= 1
    assert 0 < fitted.sigma < 0.02 * 0.1


def test_where_rows_and_context_grow_together_the_warm_up_separates_them() -> None:
    """Every sequence has 200 tokens: traffic alone cannot say what costs, the row or its context."""
    traffic = steps([(0.0, rows, 200.0 * rows) for rows in range(1, 50)])
    warm_up = steps(
        [(0.0, rows, context * rows) for rows in (1, 4, 16, 64) for context in (17, 193)]
    )
    fitted = fit(add_steps([(traffic, 1.0), (warm_up, 1.0)]))
    assert fitted is not None
    assert fitted.seconds(0.0, 30, 30 * 800 / 4096) == pytest.approx(
        DEVICE.seconds(0, 30, 30 * 800), rel=0.01
    )


def test_no_cost_is_below_0_whatever_chance_says() -> None:
    falling = [
        StepSums(*sums_of(0, rows, 10 * rows, 0.1 - 0.0005 * rows)) for rows in (1, 20, 40, 60)
    ] * 3
    fitted = fit(add_steps((step, 1.0) for step in falling))
    assert fitted is not None
    assert min(fitted.a, fitted.p, fitted.d, fitted.k) >= 0


def test_too_few_steps_tell_nothing() -> None:
    assert fit(StepSums()) is None
    assert fit(steps([(0, 1, 10)] * 3)) is None


def test_steps_all_alike_are_reported_as_they_are() -> None:
    fitted = fit(steps([(0.0, 8, 800)] * 50))
    assert fitted is not None
    assert fitted.seconds(0.0, 8, 800 / 4096) == pytest.approx(DEVICE.seconds(0, 8, 800), rel=1e-6)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=15, max_size=15))
def test_any_sums_are_borne(values: list[float]) -> None:
    sums = parse_steps(values)
    fitted = None if sums is None else fit(sums)
    assert fitted is None or min(fitted.a, fitted.p, fitted.d, fitted.k) >= 0


def test_a_singular_system_has_no_answer() -> None:
    assert solve([[1.0, 1.0], [1.0, 1.0]], (1.0, 1.0)) is None
    assert solve([[2.0, 0.0], [0.0, 4.0]], (2.0, 4.0)) == (1.0, 1.0)
