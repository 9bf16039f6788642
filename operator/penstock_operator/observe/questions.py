"""What a Prometheus is asked, in PromQL: the same of every pool at once, of large fleets a part at a time. Pure."""

from collections.abc import Iterable
from math import ceil

from penstock_api.names import CLUSTER_PORT, METRIC_POD_INFO
from penstock_operator.observe.exposition import DURATIONS, HISTORY, WANTED

RANGE_SECONDS = 15
"""Three scrapes of 5 s."""
PODS_A_QUESTION = 500
"""About 12 MB of answer, where they tell every series there is: a fifth of what is read, sorted in half a second."""
LAST_DIGITS = ("0a", "1b", "2c", "3d", "4e", "5f", "6", "7", "8", "9")
"""Of addresses, IPv6 among them: each ends in one of these, and as many in one as in another, or twice as many."""

QUERY_PODS = f"count({METRIC_POD_INFO}) or vector(0)"
"""How many pods the server knows; the answer's own time is the server's clock."""


def ranged(metrics: Iterable[str], seconds: float, part: str = "") -> str:
    """Return the question for all samples of the last `seconds`, of the instances that `part` selects."""
    return '{__name__=~"' + "|".join(metrics) + '"' + part + "}" + f"[{seconds:.0f}s]"


QUERY = ranged(WANTED, RANGE_SECONDS)
QUERY_DURATIONS = ranged(DURATIONS, RANGE_SECONDS)


def of_now(pods: int) -> tuple[str, ...]:
    """Return the questions of one round about so many pods.

    How long requests took is a question by itself: its buckets are half of all there is to tell.
    """
    families = (WANTED, DURATIONS)
    return tuple(
        ranged(metrics, RANGE_SECONDS, part) for metrics in families for part in _parts(pods)
    )


def of_past(seconds: float) -> str:
    """Return the question about the last `seconds`."""
    return ranged(HISTORY, seconds)


def _parts(pods: int) -> tuple[str, ...]:
    """Return matchers of which every instance fits exactly one; a single empty one where all fit one answer."""
    number = min(ceil(pods / PODS_A_QUESTION), len(LAST_DIGITS))
    if number <= 1:
        return ("",)
    digits = ("".join(LAST_DIGITS[part::number]) for part in range(number))
    return tuple(f',instance=~".*[{each}][]]?:{CLUSTER_PORT}"' for each in digits)
