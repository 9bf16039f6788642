"""Demand of the pool, counted before admission, over windows of several lengths. Pure. None is absent."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from penstock_operator.decide.scaling.law import DemandSource
from penstock_operator.decide.scaling.signals.counters import Point, per_second
from penstock_operator.decide.scaling.signals.offered_rows import OfferedRows, grown, is_all
from penstock_operator.decide.scaling.signals.windows import (
    WINDOW_SCRAPES,
    RecentWindows,
    Window,
    full_window,
)

RECENT_SECONDS = 15.0
RECENT_SCRAPES = 3
AT_ONCE_SECONDS = 1.0
"""Time between the first and the last response of pods that are read at the same moment."""
MAX_OVERLOAD = 2.0
"""Maximum ratio of demand to admitted rows, since rejected clients retry."""


class PoolDemand(NamedTuple):
    """Demand of a pool, in rows and seconds."""

    recent: float | None
    """Rate over the last 15 s."""
    newest: float | None
    """Rate between the last two scrapes."""
    backlog: float
    """Waiting rows, over the sampled Ready pods."""
    imbalance: float | None
    """k: the busiest Ready pod's rate over the mean, in excess of chance; at least 1."""
    unevenness: float | None
    """The squared coefficient of variation of the Ready pods' rates over 15 s, in excess of chance."""
    dispersion: float | None
    """Variance over mean of a pod's arrivals between scrapes, in rows."""
    received: float | None = None
    """`recent` without the bound on rejected clients that retry."""
    overlapping: bool = False
    """Whether successive values of `newest` overlap, because the pods' scrapes are of several times."""
    source: DemandSource = DemandSource.PODS
    """Where `recent` and `newest` were counted."""


def load(seen: RecentWindows, slack_rows: float) -> PoolDemand:
    """Return the demand from all pods with recent windows and from just deleted ones.

    `slack_rows` per pod may be received and not yet admitted between two reads of the counters.
    """
    past, ready = seen.past, [seen.fresh[uid] for uid in seen.ready if uid in seen.fresh]
    serving = _serving(seen)
    dispersion = _dispersion(serving)
    recents = {uid: tail(window, RECENT_SECONDS) for uid, window in seen.full.items()}
    received = {uid: per_second(window, "rows_received") for uid, window in recents.items()}
    clamped = [_clamped(window, received[uid], slack_rows) for uid, window in recents.items()]
    newest = [per_second(window[-2:], "rows_received") for window in seen.full.values()]
    return PoolDemand(
        recent=_total(clamped, past),
        newest=_total(newest, past),
        overlapping=_spread([window[-1].time for window in ready]) > AT_ONCE_SECONDS,
        backlog=sum((window[-1].waiting or 0.0) * rows_per_request(window) for window in ready),
        imbalance=_imbalance(serving, dispersion),
        unevenness=_unevenness([tail(window, RECENT_SECONDS) for window in serving], dispersion),
        dispersion=dispersion,
        received=_total(received.values(), past),
    )


def _serving(seen: RecentWindows) -> list[Window]:
    """Return the windows of the Ready pods since they became Ready, if they suffice for a rate.

    A pod that loads receives nothing, which does not show how requests spread.
    """
    windows = [
        full_window(seen.full[uid], pod.ready_since or 0.0)
        for uid, pod in seen.ready.items()
        if uid in seen.full
    ]
    return [window for window in windows if window]


def at_gateway(demand: PoolDemand, rows: OfferedRows | None) -> PoolDemand:
    """Return the demand that the gateway counted, if it counted all: held requests too, and each request once.

    The bound on rejected clients that retry stays.
    """
    if rows is None or demand.recent is None or demand.received is None:
        return demand
    if not is_all(rows.recent, demand.received):
        return demand
    return demand._replace(
        recent=max(demand.recent + rows.recent - demand.received, 0.0),
        newest=rows.newest,
        overlapping=False,
        source=DemandSource.GATEWAY,
    )


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values) if values else 0.0


def tail(window: Window, seconds: float) -> Window:
    """Return the last `seconds` of the window, at least `RECENT_SCRAPES` samples."""
    oldest, first = window[-1].time - seconds - 0.5, max(len(window) - RECENT_SCRAPES, 0)
    while first > 0 and window[first - 1].time >= oldest:
        first -= 1
    return window[first:]


def rows_per_request(window: Sequence[Point]) -> float:
    """Return the mean rows of a request over the window; 1 without requests."""
    requests, rows = grown(window, "requests_received"), grown(window, "rows_received")
    if requests is None or rows is None or requests <= 0:
        return 1.0
    return max(rows / requests, 1.0)


def _clamped(window: Window, received: float | None, slack_rows: float) -> float | None:
    """Return the received rate, in rows a second, at most twice the admitted rate (served rows plus growth of the queue)."""
    served = per_second(window, "completed" if window[-1].generation is not None else "cost_units")
    if received is None or served is None:
        return received
    span = window[-1].time - window[0].time
    each = rows_per_request(window)
    rows_held = [
        ((point.waiting or 0.0) + (point.running or 0.0)) * each
        for point in (window[0], window[-1])
    ]
    admitted = max(served + (rows_held[1] - rows_held[0]) / span, 0.0)
    return min(received, MAX_OVERLOAD * admitted + slack_rows / span)


def _total(rates: Iterable[float | None], past: Sequence[float]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) + sum(past) if known else None


def _counts(window: Window) -> list[float]:
    """Return the rows received between scrapes, scaled to the mean interval."""
    mean_seconds = (window[-1].time - window[0].time) / (len(window) - 1)
    totals = [(point.time, point.counters.get("rows_received")) for point in window]
    return [
        (later - earlier) / (end - begin) * mean_seconds
        for (begin, earlier), (end, later) in pairwise(totals)
        if earlier is not None and later is not None and later >= earlier and end > begin
    ]


def _dispersion(windows: Sequence[Window]) -> float | None:
    """Return the mean square of successive differences over twice the mean, so that a trend does not count as dispersion.

    The largest difference of each window is left out, so that a step does not count either
    (von Neumann et al. 1941, "The mean square successive difference".)
    """
    squares, steps, total, number = 0.0, 0, 0.0, 0
    for window in windows:
        counts = _counts(window) if len(window) >= WINDOW_SCRAPES else []
        moved = sorted((after - before) ** 2 for before, after in pairwise(counts))[:-1]
        squares += sum(moved)
        steps += len(moved)
        total += sum(counts)
        number += len(counts)
    if not steps or total <= 0:
        return None
    return (squares / (2 * steps)) / (total / number)


def _imbalance(windows: Sequence[Window], dispersion: float | None) -> float | None:
    rates = _rates(windows)
    if not rates:
        return None
    mean, chance = _mean_and_chance(rates, dispersion)
    return max(max(rate for rate, _ in rates) / mean - sqrt(chance), 1.0)


def _unevenness(windows: Sequence[Window], dispersion: float | None) -> float | None:
    rates = _rates(windows)
    if len(rates) < 2:
        return None
    mean, chance = _mean_and_chance(rates, dispersion)
    variance = sum((rate - mean) ** 2 for rate, _ in rates) / (len(rates) - 1)
    return max(variance / mean**2 - chance, 0.0)


def _rates(windows: Sequence[Window]) -> list[tuple[float, float]]:
    """Return (rows a second, seconds) of each window; nothing if no row was received."""
    rates = [
        (rate, window[-1].time - window[0].time)
        for window in windows
        if (rate := per_second(window, "rows_received")) is not None
    ]
    return rates if any(rate for rate, _ in rates) else []


def _mean_and_chance(
    rates: Sequence[tuple[float, float]], dispersion: float | None
) -> tuple[float, float]:
    """Return the mean rate, and the squared coefficient of variation that chance explains."""
    mean = sum(rate for rate, _ in rates) / len(rates)
    inverse = sum(1 / seconds for _, seconds in rates) / len(rates)
    return mean, max(dispersion or 1.0, 1.0) * inverse / mean
