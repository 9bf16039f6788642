"""PromQL queries: one set for all pools, in several parts for large fleets. Pure."""

from collections.abc import Iterable
from math import ceil

from penstock_api.names import CLUSTER_PORT, METRIC_POD_INFO
from penstock_operator.observe.signals.samples import DURATIONS, HISTORY, SAMPLE_METRICS

RANGE_SECONDS = 15
"""Three scrapes of 5 s."""
PODS_PER_QUERY = 500
"""About 16 MB in a response if all pods have every series, that is 93 histogram buckets or 86 others; a quarter of the limit."""
LAST_DIGITS = ("0a", "1b", "2c", "3d", "4e", "5f", "6", "7", "8", "9")
"""Groups of last digits of IPv4 and IPv6 addresses; no group matches more than twice as many addresses as another."""
MAX_SHARE = 1 / 8
"""Largest share of addresses that one group matches: two of sixteen digits of IPv6."""

PAST_BYTES = 8_000_000
"""JSON in the response about the past that is sorted and replayed before a liveness probe fails."""
PAST_SECONDS = 180.0
"""Four times the memory of the forecast's level."""
MIN_PAST_SECONDS = 60.0
"""A shorter past has no more information than the next ticks."""
BYTES_PER_SAMPLE, BYTES_PER_SERIES, SCRAPE_SECONDS = 30, 250, 5.0


def selected(metrics: Iterable[str], part: str = "") -> str:
    """Return the selector of these metrics, for the instances that `part` matches."""
    return '{__name__=~"' + "|".join(metrics) + '"' + part + "}"


def ranged(metrics: Iterable[str], seconds: float, part: str = "") -> str:
    """Return the query for all samples of the last `seconds`, for the instances that `part` matches."""
    return selected(metrics, part) + f"[{seconds:.0f}s]"


QUERY_PODS = f"count({METRIC_POD_INFO}) or vector(0)"
"""Number of pods on the server; the response's time is the server's clock."""
QUERY_PAST_SERIES = f"count({selected(HISTORY)}) or vector(0)"
"""Number of series in the query about the past: 11 a pod, and 15 to 30 more if it generates text."""
QUERY = ranged(SAMPLE_METRICS, RANGE_SECONDS)
QUERY_DURATIONS = ranged(DURATIONS, RANGE_SECONDS)


def current_queries(pods: int) -> tuple[str, ...]:
    """Return the queries of one round for this many pods.

    Request durations have their own queries, because their buckets are half of all series.
    """
    families = (SAMPLE_METRICS, DURATIONS)
    return tuple(
        ranged(metrics, RANGE_SECONDS, part) for metrics in families for part in _parts(pods)
    )


def past_query(series: int) -> str | None:
    """Return the query for the past of this many series; None if a response of useful length would be too large."""
    seconds = past_seconds(series)
    return ranged(HISTORY, seconds) if seconds else None


def past_seconds(series: int) -> float:
    """Return the seconds of the past of this many series that fit into `PAST_BYTES`, at most `PAST_SECONDS`; 0: too few."""
    samples = (PAST_BYTES / max(series, 1) - BYTES_PER_SERIES) / BYTES_PER_SAMPLE
    seconds = min(samples * SCRAPE_SECONDS, PAST_SECONDS)
    return seconds if seconds >= MIN_PAST_SECONDS else 0.0


def _parts(pods: int) -> tuple[str, ...]:
    """Return label matchers, of which each instance matches exactly one; a single empty one for a small fleet."""
    if pods <= PODS_PER_QUERY:
        return ("",)
    digits_per_part = max(int(PODS_PER_QUERY / (MAX_SHARE * pods)), 1)
    number = ceil(len(LAST_DIGITS) / digits_per_part)
    digits = ("".join(LAST_DIGITS[part::number]) for part in range(number))
    return tuple(f',instance=~".*[{each}][]]?:{CLUSTER_PORT}"' for each in digits)
