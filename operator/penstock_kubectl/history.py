"""History of a pool in Prometheus: queries and the parsing of their results. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np

from penstock_api import names
from penstock_gateway.resources.stats import OFFERED, PREFIX

MIN_STEP_SECONDS = 15.0
POINTS = 240
"""Limit of points per series."""
WINDOW_SECONDS = 60.0
"""Minimum window of rates."""
OFFERED_METRIC = f"{PREFIX}_{OFFERED}_total"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Start, end and step of a range query in Unix seconds."""

    start: float
    end: float
    step: float


@dataclass(frozen=True, slots=True)
class History:
    """Series over one time range, one value per step; NaN if unknown."""

    span: TimeRange
    series: Mapping[str, tuple[float, ...]]

    def of(self, name: str) -> tuple[float, ...]:
        """Return a series; empty if there is none."""
        return self.series.get(name, ())


@dataclass(frozen=True, slots=True)
class DemandHistory:
    """Demand from the first known step on."""

    rates: list[tuple[float, float]]
    """Consecutive pairs of rows per second and seconds."""
    began: float
    """Start in Unix seconds."""
    unknown: float
    """Share of unknown steps, 0 to 1."""


def span(now: float, seconds: float, points: int = POINTS) -> TimeRange:
    """Return the time range of the last `seconds`."""
    step = max(MIN_STEP_SECONDS, round(seconds / points))
    return TimeRange(now - seconds, now, step)


def queries(namespace: str, pools: Sequence[str], over: TimeRange) -> Mapping[str, str]:
    """Return PromQL queries by series, over the pods of all pools; relabelling adds `namespace` and `pool`.

    Demand is what a gateway counts, also while there are no pods, by the rows that a request has at the pods, 1 without
    requests. A body with several prompts is as many requests there, so it has at least the mean of the whole range.
    Without a gateway demand is what the pods count.
    """
    names_match = f"=~{quoted('|'.join(pools))}" if len(pools) > 1 else f"={quoted(pools[0])}"
    which = f"{{namespace={quoted(namespace)},pool{names_match}}}"
    window = f"[{max(WINDOW_SECONDS, over.step):.0f}s]"
    seconds = f"rate({names.METRIC_REQUEST_DURATION}_bucket{which}{window})"
    rows, received, offered = (
        f"sum(rate({metric}{which}{window}))"
        for metric in (names.METRIC_ROWS_RECEIVED, names.METRIC_REQUESTS_RECEIVED, OFFERED_METRIC)
    )
    whole = f"[{over.end - over.start:.0f}s] @ end()"
    mean = " / ".join(
        f"sum(increase({metric}{which}{whole}))"
        for metric in (names.METRIC_ROWS_RECEIVED, OFFERED_METRIC)
    )
    each = f"({rows} / ({received} > 0) or vector(1))"
    return {
        "demand": f"{offered} * ({mean} > {each} or {each}) or {rows}",
        "pods": f"count({names.METRIC_POD_INFO}{which})",
        "cap": f"max({names.METRIC_BATCH_CAP}{which})",
        "waiting": f"sum({names.METRIC_REQUESTS_WAITING}{which})",
        "p99": f"histogram_quantile(0.99, sum by (le) ({seconds}))",
    }


def curve_queries(namespace: str, pool: str, over: TimeRange) -> Mapping[str, str]:
    """Return PromQL queries for the increase of each service-curve sum over the range."""
    which = f"{{namespace={quoted(namespace)},pool={quoted(pool)}}}"
    window = f"[{over.end - over.start:.0f}s]"
    return {
        name: f"sum(increase({metric}{which}{window}))"
        for name, metric in names.CURVE_METRICS.items()
    }


def step_queries(namespace: str, pool: str, over: TimeRange) -> Mapping[str, str]:
    """Return PromQL queries for the increase of each sum over steps of generation over the range."""
    window = f"[{over.end - over.start:.0f}s]"
    return {
        term: f"sum(increase({names.METRIC_GENERATION_CURVE}"
        f"{{namespace={quoted(namespace)},pool={quoted(pool)},term={quoted(term)}}}{window}))"
        for term in names.GENERATION_TERMS
    }


def token_queries(namespace: str, pool: str, seconds: float) -> Mapping[str, str]:
    """Return PromQL queries for the mean tokens of prompts and of answers of the last `seconds`.

    Prompts are those of all admitted requests, batch work included, since their tokens are not counted by work. Answers
    are those of completed requests without batch work; a row that is served is a token of an answer.
    """
    which = f"{{namespace={quoted(namespace)},pool={quoted(pool)}}}[{seconds:.0f}s]"
    prompts = f"sum(increase({names.METRIC_PROMPT_TOKENS_RECEIVED}{which}))"
    admitted = f"sum(increase({names.METRIC_REQUESTS}{which}))"
    return {"prompts": f"{prompts} / {admitted}", "outputs": served_rows(namespace, pool, seconds)}


def served_rows(namespace: str, pool: str, seconds: float) -> str:
    """Return a PromQL query for the rows served a completed request of the last `seconds`, without batch work."""
    which = f"namespace={quoted(namespace)},pool={quoted(pool)}"
    window = f"[{seconds:.0f}s]"
    completed = f"{names.METRIC_REQUEST_DURATION}_count{{{which}}}"
    served = f'{names.METRIC_SERVED}{{{which},work="interactive"}}'
    return f"sum(increase({served}{window})) / sum(increase({completed}{window}))"


def series(answer: Mapping[str, Any], over: TimeRange) -> tuple[float, ...]:
    """Return the values of the single series of a range query, one per step."""
    result = answer.get("data", {}).get("result") or []
    known: dict[int, float] = {}
    for time, text in result[0]["values"] if result else ():
        known[round((float(time) - over.start) / over.step)] = float(text)
    length = int((over.end - over.start) / over.step) + 1
    values = (known.get(index, nan) for index in range(length))
    return tuple(value if isfinite(value) else nan for value in values)


def value(answer: Mapping[str, Any]) -> float | None:
    """Return the result of an instant query; None if there is none."""
    result = answer.get("data", {}).get("result") or []
    number = float(result[0]["value"][1]) if result else nan
    return number if isfinite(number) else None


def demand(values: Sequence[float], over: TimeRange) -> DemandHistory:
    """Return demand from the first known step; gaps are interpolated, and the last known value is extended."""
    at = [index for index, value in enumerate(values) if isfinite(value)]
    if not at:
        return DemandHistory([], over.start, 0.0)
    steps = range(at[0], len(values))
    filled = np.interp(steps, at, [values[index] for index in at]).tolist()
    rates = [(rate, over.step) for rate in filled]
    return DemandHistory(rates, over.start + at[0] * over.step, 1 - len(at) / len(steps))


def quoted(text: str) -> str:
    """Return a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
