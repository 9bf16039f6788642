"""The `Retry-After` of a full queue: its bounds, in whole seconds."""

import math
from typing import Final

MIN_RETRY_SECONDS: Final = 1
MAX_RETRY_SECONDS: Final = 600


def retry_after_seconds(wait_seconds: float) -> int:
    """Return the predicted time until the waiting requests are served, rounded up and bounded."""
    return min(max(math.ceil(wait_seconds), MIN_RETRY_SECONDS), MAX_RETRY_SECONDS)
