"""A pool's past, as Prometheus has it: which questions, and what their answers come to. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np

from penstock_api import names

LEAST_STEP_SECONDS = 15.0
POINTS = 240
"""Of each series, at most."""
WINDOW_SECONDS = 60.0
"""Rates are over at least so long."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From when to when, and how finely. Unix seconds."""

    start: float
    end: float
    step: float


@dataclass(frozen=True, slots=True)
class History:
    """Series over one span, a value a step; NaN where nothing is known."""

    span: TimeRange
    series: Mapping[str, tuple[float, ...]]

    def of(self, name: str) -> tuple[float, ...]:
        """Return one series; empty where there is none."""
        return self.series.get(name, ())


@dataclass(frozen=True, slots=True)
class DemandHistory:
    """What arrived, from the first step that is known."""

    rates: list[tuple[float, float]]
    """(rows a second, seconds) one after another."""
    began: float
    """Unix seconds."""
    unknown: float
    """The share of the steps, 0 to 1, of which nothing is known."""


def span(now: float, seconds: float, points: int = POINTS) -> TimeRange:
    """Return the last `seconds`."""
    step = max(LEAST_STEP_SECONDS, round(seconds / points))
    return TimeRange(now - seconds, now, step)


def questions(namespace: str, pool: str, over: TimeRange) -> Mapping[str, str]:
    """Return PromQL by the name of what it asks for; series carry `namespace` and `pool` by relabelling."""
    which = f"{{namespace={_quoted(namespace)},pool={_quoted(pool)}}}"
    window = f"[{max(WINDOW_SECONDS, over.step):.0f}s]"
    seconds = f"rate({names.METRIC_REQUEST_DURATION}_bucket{which}{window})"
    return {
        "demand": f"sum(rate({names.METRIC_ROWS_RECEIVED}{which}{window}))",
        "pods": f"count({names.METRIC_POD_INFO}{which})",
        "cap": f"max({names.METRIC_BATCH_CAP}{which})",
        "waiting": f"sum({names.METRIC_REQUESTS_WAITING}{which})",
        "p99": f"histogram_quantile(0.99, sum by (le) ({seconds}))",
    }


def curve_questions(namespace: str, pool: str, over: TimeRange) -> Mapping[str, str]:
    """Return PromQL for the growth of each service-curve sum over the whole span."""
    which = f"{{namespace={_quoted(namespace)},pool={_quoted(pool)}}}"
    window = f"[{over.end - over.start:.0f}s]"
    return {
        name: f"sum(increase({metric}{which}{window}))"
        for name, metric in names.CURVE_METRICS.items()
    }


def series(answer: Mapping[str, Any], over: TimeRange) -> tuple[float, ...]:
    """Return the values of a range query's one series, a value a step."""
    result = answer.get("data", {}).get("result") or []
    known: dict[int, float] = {}
    for time, text in result[0]["values"] if result else ():
        known[round((float(time) - over.start) / over.step)] = float(text)
    length = int((over.end - over.start) / over.step) + 1
    found = (known.get(index, nan) for index in range(length))
    return tuple(value if isfinite(value) else nan for value in found)


def value(answer: Mapping[str, Any]) -> float | None:
    """Return the number that an instant query answered; None where it answered none."""
    result = answer.get("data", {}).get("result") or []
    found = float(result[0]["value"][1]) if result else nan
    return found if isfinite(found) else None


def demand(values: Sequence[float], over: TimeRange) -> DemandHistory:
    """Return demand from the first step that is known; over gaps it goes in a line, after the last known step it stays."""
    at = [index for index, one in enumerate(values) if isfinite(one)]
    if not at:
        return DemandHistory([], over.start, 0.0)
    steps = range(at[0], len(values))
    filled = np.interp(steps, at, [values[index] for index in at]).tolist()
    rates = [(one, over.step) for one in filled]
    return DemandHistory(rates, over.start + at[0] * over.step, 1 - len(at) / len(steps))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
