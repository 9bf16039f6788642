"""What Envoy counts of each pool: requests as they arrive, and answers with their durations, as clients see them.

Only a POST counts, as at the pods: probes and listings are no demand. A request counts once, however often it is sent
again, held or refused.
"""

from typing import Any, Final

from penstock_api import names

Json = dict[str, Any]

PREFIX: Final = "penstock_gateway"
LISTENER_PREFIX: Final = "pool/"
"""Begins the `stat_prefix` of a pool's listener: Envoy's own listeners have names that a pool may have, such as `admin`."""
IN_FLIGHT: Final = rf"^http\.{LISTENER_PREFIX}[^.]+\.downstream_rq_active$"
"""Names of the gauges of requests in flight at the pools' listeners."""
OFFERED: Final = "requests"
ANSWERS: Final = "answers"
DURATION: Final = "request_milliseconds"
FIRST_BYTE: Final = "first_byte_milliseconds"
MILLISECONDS: Final = (
    1, 2.5, 5, 10, 15, 20, 30, 40, 50, 65, 80, 100, 125, 150, 200, 250, 300, 400, 500, 650, 800, 1000, 1500, 2000,
    3000, 5000, 10_000, 30_000, 60_000, 120_000, 600_000,
)  # fmt: skip
"""Upper bounds of the durations: those of the pods, and ten minutes."""
_LOGGER: Final = "type.googleapis.com/envoy.extensions.access_loggers.stats.v3.Config"


def tags() -> list[Json]:
    """Return the label `pool` of the metrics of a pool's cluster and listener; the gateway's own have a slash in their names."""
    return [
        {"tag_name": "pool", "regex": r"^cluster\.(([^./]+)\.)"},
        {"tag_name": "pool", "regex": rf"^http\.({LISTENER_PREFIX}([^.]+)\.)"},
        {"tag_name": "pool", "regex": r"^connection_limit\.(([^./]+)\.)"},
    ]


def log_options() -> Json:
    """Return the options that let Envoy log a request when it arrives too."""
    return {"flush_access_log_on_new_request": True}


def at_end() -> Json:
    """Return the filter of a request's last log entry."""
    return {"log_type_filter": {"types": ["DownstreamEnd"]}}


def counting(pool: str) -> list[Json]:
    """Return the access loggers of a pool, which write nothing: they count."""
    own = {"name": "pool", "value_format": pool}
    tenant = {"name": "tenant", "value_format": f"%RESP({names.HEADER_TENANT})%"}
    code = {"name": "code", "value_format": "%RESPONSE_CODE%"}
    arrival = {"counters": [_counter(OFFERED, own)]}
    end = {
        "counters": [_counter(ANSWERS, own, tenant, code)],
        "histograms": [
            _histogram(DURATION, "%DURATION%", own, tenant),
            _histogram(FIRST_BYTE, "%RESPONSE_DURATION%", own, tenant),
        ],
    }
    begun = {"log_type_filter": {"types": ["DownstreamStart"]}}
    return [_logger(begun, arrival), _logger(at_end(), end)]


def histogram_buckets() -> Json:
    """Return the bounds of the histograms, for the bootstrap."""
    return {"match": {"prefix": PREFIX}, "buckets": list(MILLISECONDS)}


def _logger(log_type: Json, stats: Json) -> Json:
    post = {"header_filter": {"header": {"name": ":method", "string_match": {"exact": "POST"}}}}
    return {
        "name": "envoy.access_loggers.stats",
        "filter": {"and_filter": {"filters": [log_type, post]}},
        "typed_config": {"@type": _LOGGER, "stat_prefix": PREFIX, **stats},
    }


def _counter(name: str, *tags: Json) -> Json:
    return {"stat": {"name": name, "tags": list(tags)}, "value_fixed": 1}


def _histogram(name: str, value: str, *tags: Json) -> Json:
    return {
        "stat": {"name": name, "tags": list(tags)},
        "unit": "Milliseconds",
        "value_format": value,
    }
