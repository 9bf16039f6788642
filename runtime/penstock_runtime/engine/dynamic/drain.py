"""The batch engine's drain: which requests the service curve predicts to finish by the deadline."""

from collections.abc import Iterable

from penstock_runtime.engine.messages import Drain
from penstock_runtime.engine.service_time import ServiceTime
from penstock_runtime.request import Request


def finishes(drain: Drain, rows: int, cap: int, service_time: ServiceTime, now: float) -> bool:
    """Return whether `rows`, served from `now` in batches of `cap`, finish before the deadline."""
    return now + service_time.seconds_for_all(rows, cap) < drain.deadline


def unreachable(
    drain: Drain, in_order: Iterable[Request], cap: int, service_time: ServiceTime, now: float
) -> list[Request]:
    """Return the requests that do not finish in time when all are served in this order."""
    rows, late = 0, []
    for request in in_order:
        if finishes(drain, rows + request.rows, cap, service_time, now):
            rows += request.rows
        else:
            late.append(request)
    return late
