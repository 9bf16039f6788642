"""What the service time says about a wait. Pure; rows and seconds."""

import math
from typing import Final

from penstock_runtime.batching.service_time import ServiceTime

LEAST_RETRY_SECONDS: Final = 1
MOST_RETRY_SECONDS: Final = 600


def least_wait_seconds(service_time: ServiceTime, rows_ahead: float, cap: int) -> float:
    """Return the least time until `rows_ahead` have left the queue in batches of `cap`.

    A part of a batch counts nothing: the request may share it. Unknown service times predict no wait.
    """
    return math.floor(rows_ahead / cap) * service_time.seconds(cap)


def retry_after_seconds(service_time: ServiceTime, rows_waiting: float, cap: int) -> int:
    """Return when the queue of now will be served, in whole seconds of `Retry-After`, at least 1."""
    wait = math.ceil(rows_waiting / cap * service_time.seconds(cap))
    return min(max(wait, LEAST_RETRY_SECONDS), MOST_RETRY_SECONDS)
