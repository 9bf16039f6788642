"""What the service time says about a wait. Pure; rows and seconds."""

import math
from typing import Final

from penstock_runtime.engine.service_time import ServiceTime

LEAST_RETRY_SECONDS: Final = 1
MOST_RETRY_SECONDS: Final = 600
_SHARES: Final = 64


def least_wait_seconds(service_time: ServiceTime, rows_ahead: float, cap: int) -> float:
    """Return the least time until `rows_ahead` have left the queue in batches of `cap`.

    A part of a batch counts nothing: the request may share it. Unknown service times predict no wait.
    """
    return math.floor(rows_ahead / cap) * service_time.seconds(cap)


def retry_after_seconds(service_time: ServiceTime, rows_waiting: float, cap: int) -> int:
    """Return when the queue of now will be served, in whole seconds of `Retry-After`, at least 1."""
    wait = math.ceil(rows_waiting / cap * service_time.seconds(cap))
    return min(max(wait, LEAST_RETRY_SECONDS), MOST_RETRY_SECONDS)


def patience_to_start(patience_seconds: float, batch_seconds: float) -> float:
    """Return how long a request may wait for a batch of such length whose answer is due in `patience_seconds`.

    The batch is rounded up to a share of the patience: deadlines of one patience then stay in the order of arrival,
    however many share a batch. It takes half of the patience at most.
    """
    share = min(batch_seconds / patience_seconds, 0.5)
    return patience_seconds * (1.0 - math.ceil(_SHARES * share) / _SHARES)
