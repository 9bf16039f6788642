"""PromQL queries: one set for all pools, in several parts for large fleets. Pure."""

from collections.abc import Iterable
from math import ceil

from penstock_api.names import CLUSTER_PORT, METRIC_POD_INFO
from penstock_operator.observe.signals.samples import DURATIONS, SAMPLE_METRICS

RANGE_SECONDS = 15
"""Three scrapes of 5 s."""
PODS_PER_QUERY = 500
"""About 16 MB in a response if all pods have every series, that is 93 histogram buckets or 86 others; a quarter of the limit."""
LAST_DIGITS = ("0a", "1b", "2c", "3d", "4e", "5f", "6", "7", "8", "9")
"""Groups of last digits of IPv4 and IPv6 addresses; no group matches more than twice as many addresses as another."""
MAX_SHARE = 1 / 8
"""Largest share of addresses that one group matches: two of sixteen digits of IPv6."""


def ranged(metrics: Iterable[str], part: str = "") -> str:
    """Return the query for all samples of the last `RANGE_SECONDS`, for the instances that `part` matches."""
    return '{__name__=~"' + "|".join(metrics) + '"' + part + "}" + f"[{RANGE_SECONDS}s]"


QUERY_PODS = f"count({METRIC_POD_INFO}) or vector(0)"
"""Number of pods on the server; the response's time is the server's clock."""
QUERY = ranged(SAMPLE_METRICS)
QUERY_DURATIONS = ranged(DURATIONS)


def current_queries(pods: int) -> tuple[str, ...]:
    """Return the queries of one round for this many pods.

    Request durations have their own queries, because their buckets are half of all series.
    """
    families = (SAMPLE_METRICS, DURATIONS)
    return tuple(ranged(metrics, part) for metrics in families for part in _parts(pods))


def _parts(pods: int) -> tuple[str, ...]:
    """Return label matchers, of which each instance matches exactly one; a single empty one for a small fleet."""
    if pods <= PODS_PER_QUERY:
        return ("",)
    digits_per_part = max(int(PODS_PER_QUERY / (MAX_SHARE * pods)), 1)
    number = ceil(len(LAST_DIGITS) / digits_per_part)
    digits = ("".join(LAST_DIGITS[part::number]) for part in range(number))
    return tuple(f',instance=~".*[{each}][]]?:{CLUSTER_PORT}"' for each in digits)
