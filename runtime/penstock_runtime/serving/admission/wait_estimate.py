"""Predicted waits from the service curve. Pure; rows and seconds."""

import math
from typing import Final

from penstock_runtime.engine.service_time import ServiceTime

MIN_RETRY_SECONDS: Final = 1
MAX_RETRY_SECONDS: Final = 600
_SHARES: Final = 64


def min_wait_seconds(service_time: ServiceTime, rows_ahead: float, cap: int) -> float:
    """Return the shortest time until `rows_ahead` have left the queue in batches of `cap`.

    A partial batch does not count, because the request may share it. Unknown service times predict no wait.
    """
    return math.floor(rows_ahead / cap) * service_time.seconds(cap)


def retry_after_seconds(service_time: ServiceTime, rows_waiting: float, cap: int) -> int:
    """Return the predicted time until the waiting rows are served, in whole seconds of `Retry-After`."""
    wait = math.ceil(rows_waiting / cap * service_time.seconds(cap))
    return min(max(wait, MIN_RETRY_SECONDS), MAX_RETRY_SECONDS)


def patience_to_start(patience_seconds: float, batch_seconds: float) -> float:
    """Return how long a request may wait for a batch of `batch_seconds` if its answer is due in `patience_seconds`.

    The batch is rounded up to a share of the patience, so that deadlines of equal patience stay in the order of
    arrival. It takes at most half of the patience.
    """
    share = min(batch_seconds / patience_seconds, 0.5)
    return patience_seconds * (1.0 - math.ceil(_SHARES * share) / _SHARES)
