"""What a Prometheus is asked, in PromQL: the same of every pool at once, of large fleets a part at a time. Pure."""

from collections.abc import Iterable
from math import ceil

from penstock_api.names import CLUSTER_PORT, METRIC_POD_INFO
from penstock_operator.observe.signals.samples import DURATIONS, HISTORY, WANTED

RANGE_SECONDS = 15
"""Three scrapes of 5 s."""
PODS_PER_QUERY = 500
"""An answer of about 16 MB, where all pods have every series there is: 93 histogram buckets, or 86 others. A quarter of what is read."""
LAST_DIGITS = ("0a", "1b", "2c", "3d", "4e", "5f", "6", "7", "8", "9")
"""Of addresses, IPv6 among them: each ends in one of these, and as many in one as in another, or twice as many."""
MAX_SHARE = 1 / 8
"""Of all addresses: those with one of the last digits, of IPv6 at most two of sixteen."""

PAST_BYTES = 8_000_000
"""Of the answer about the past, in JSON: what is sorted and replayed before a liveness probe fails."""
PAST_SECONDS = 180.0
"""Four times what the forecast's level remembers."""
MIN_PAST_SECONDS = 60.0
"""A shorter past teaches nothing that the next ticks do not."""
BYTES_PER_SAMPLE, BYTES_PER_SERIES, SCRAPE_SECONDS = 30, 250, 5.0


def selected(metrics: Iterable[str], part: str = "") -> str:
    """Return the selector of these metrics, of the instances that `part` selects."""
    return '{__name__=~"' + "|".join(metrics) + '"' + part + "}"


def ranged(metrics: Iterable[str], seconds: float, part: str = "") -> str:
    """Return the question for all samples of the last `seconds`, of the instances that `part` selects."""
    return selected(metrics, part) + f"[{seconds:.0f}s]"


QUERY_PODS = f"count({METRIC_POD_INFO}) or vector(0)"
"""How many pods the server knows; the answer's own time is the server's clock."""
QUERY_PAST_SERIES = f"count({selected(HISTORY)}) or vector(0)"
"""How many series the question about the past is about: 11 of a pod, and 15 to 30 more where it generates text."""


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


def of_past(series: int) -> str | None:
    """Return the question about the past of so many series; None where the answer would be too large to be of use."""
    seconds = past_seconds(series)
    return ranged(HISTORY, seconds) if seconds else None


def past_seconds(series: int) -> float:
    """Return how much of the past of so many series fits into PAST_BYTES, in seconds, at most PAST_SECONDS; 0: too little."""
    samples = (PAST_BYTES / max(series, 1) - BYTES_PER_SERIES) / BYTES_PER_SAMPLE
    seconds = min(samples * SCRAPE_SECONDS, PAST_SECONDS)
    return seconds if seconds >= MIN_PAST_SECONDS else 0.0


def _parts(pods: int) -> tuple[str, ...]:
    """Return matchers of which every instance fits exactly one; a single empty one where all fit one answer."""
    if pods <= PODS_PER_QUERY:
        return ("",)
    digits_per_part = max(int(PODS_PER_QUERY / (MAX_SHARE * pods)), 1)
    number = ceil(len(LAST_DIGITS) / digits_per_part)
    digits = ("".join(LAST_DIGITS[part::number]) for part in range(number))
    return tuple(f',instance=~".*[{each}][]]?:{CLUSTER_PORT}"' for each in digits)
