"""Values that several properties draw."""

from typing import Any

from hypothesis import strategies as st

from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import StepSums
from penstock_operator.decide.scaling.law import LawObservations
from penstock_operator.decide.scaling.polyline import Knot, polyline
from penstock_operator.decide.scaling.signals.counters import SUMS, CurveSumsTuple
from penstock_operator.decide.spec.law_settings import Guards, LawSettings
from tests.unit.operator.decide.scaling.properties.holds import CAPS, MEASURED, OBJECTIVES

NOTHING_SEEN = LawObservations(None, None, None, None, None, None, None, None)


def law_settings(**changes: Any) -> LawSettings:
    plain: dict[str, Any] = {
        "objective_milliseconds": 1000,
        "size_min": 1,
        "size_max": 64,
        "max_queue_delay_milliseconds": 5,
        "min_replicas": 1,
        "max_replicas": 10_000,
        "low_percent": 50,
        "high_percent": 90,
        "target_per_replica": 4,
        "stabilization_seconds": 60,
        "max_percent_per_minute": 100,
    }
    return LawSettings(**{**plain, **changes})


def _settings(caps: tuple[int, int], counts: tuple[int, int], **changes: Any) -> LawSettings:
    low, high = sorted(caps)
    least, most = sorted(counts)
    return law_settings(
        size_min=low, size_max=high, min_replicas=least, max_replicas=most, **changes
    )


PERCENT = st.one_of(st.none(), st.integers(1, 100))
SETTINGS = st.builds(
    _settings,
    caps=st.tuples(CAPS, CAPS),
    counts=st.tuples(st.integers(0, 10_000), st.integers(1, 10_000)),
    objective_milliseconds=OBJECTIVES,
    first_token_milliseconds=OBJECTIVES,
    output_token_milliseconds=OBJECTIVES,
    max_queue_delay_milliseconds=st.one_of(st.integers(0, 100), st.integers(0, 600_000)),
    target_per_replica=st.integers(1, 100_000),
    stabilization_seconds=st.integers(0, 3600),
    max_percent_per_minute=st.integers(1, 100),
    low_percent=st.integers(1, 100),
    high_percent=st.integers(1, 100),
    guards=st.builds(
        Guards,
        PERCENT,
        PERCENT,
        st.one_of(st.none(), st.integers(1, 100_000)),
        st.one_of(st.none(), st.integers(0, 3600)),
    ),
)
BY_SIZE = st.lists(st.tuples(MEASURED, MEASURED, MEASURED), max_size=13).map(
    lambda classes: tuple(value for each in classes for value in each)
)
ODD_SUMS = st.builds(
    CurveSumsTuple, st.integers(0, 3), *(MEASURED for _ in SUMS), st.one_of(st.just(()), BY_SIZE)
)
"""Numbers that need not go together."""


def _of_batches(batches: list[tuple[float, float]]) -> CurveSumsTuple:
    n, b, bb, t, bt, tt = (0.0,) * 6
    by_size = [0.0] * 39
    for rows, seconds in batches:
        at = 3 * (int(rows) - 1).bit_length()
        by_size[at : at + 3] = (
            old + new for old, new in zip(by_size[at : at + 3], (1.0, rows, seconds), strict=True)
        )
        n, b, bb = n + 1, b + rows, bb + rows * rows
        t, bt, tt = t + seconds, bt + rows * seconds, tt + seconds * seconds
    return CurveSumsTuple(0, n, b, bb, t, bt, tt, tuple(by_size))


BATCH_SUMS = st.builds(
    _of_batches,
    st.lists(
        st.tuples(st.integers(1, 4096).map(float), st.floats(1e-4, 100)), min_size=1, max_size=40
    ),
)
"""Of real batches: rising, falling, flat curves and chance."""
ALL_SUMS = st.one_of(ODD_SUMS, BATCH_SUMS)
KNOTS = st.lists(
    st.builds(Knot, st.floats(0.5, 8192), st.floats(1e-6, 1e6), st.floats(1e-3, 1e9)), max_size=13
)
SHAPES = st.builds(polyline, KNOTS, KNOTS)
"""Polylines, and None where there are fewer than two sizes."""
ODD_STEPS = st.builds(StepSums, *(MEASURED for _ in StepSums._fields))


def _of_steps(steps: list[tuple[float, ...]]) -> StepSums:
    total = [0.0] * len(StepSums._fields)
    for p, d, k, t in steps:
        x = (1.0, p, d, k, t)
        products = [x[i] * x[j] for i in range(5) for j in range(i, 5)]
        total = [old + new for old, new in zip(total, products, strict=True)]
    return StepSums(*total)


REAL_STEPS = st.builds(
    _of_steps,
    st.lists(
        st.tuples(
            st.floats(0, 64),
            st.integers(0, 512).map(float),
            st.floats(0, 1000),
            st.floats(1e-4, 10),
        ),
        min_size=1,
        max_size=40,
    ),
)
ALL_STEPS = st.one_of(ODD_STEPS, REAL_STEPS)
