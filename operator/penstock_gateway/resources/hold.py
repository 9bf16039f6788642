"""Envoy's hold listener, an endpoint of second priority of each held pool, and the cluster of the controller behind it.

The listener is on a Unix socket. A controller that restarts breaks no held request: the listener sends it to the next
process. The controller
releases a request by an answer that the pool's route retries, then on a pod.
"""

from typing import Any, Final

from penstock_gateway.config import GatewaySettings

Json = dict[str, Any]

HOLD: Final = "penstock/hold"
"""Name of the listener and of its cluster, which no pool can have."""
HEADER_HELD: Final = "x-penstock-held"
"""On requests of a pool that is held: its name, the arrival in Unix seconds, and the client's time-out in milliseconds."""
HEADER_HELD_SINCE: Final = "x-penstock-held-since"
"""On requests at the controller: the time in Unix seconds at which the hold listener received it."""
HEADER_FINAL: Final = "x-envoy-ratelimited"
"""On answers of the controller that Envoy does not retry, whatever their status; clients do not see it."""
REMAINING_TIMEOUT: Final = """
function envoy_on_request(handle)
  local headers = handle:headers()
  local mark = headers:get("x-penstock-held")
  if mark == nil then return end
  local arrived, timeout = mark:match(" (%d+%.%d+) (%d+)$")
  if timeout == nil or #timeout > 15 then return end
  local waited = handle:timestamp(EnvoyTimestampResolution.MILLISECOND) - tonumber(arrived) * 1000
  local rest = math.max(math.floor(tonumber(timeout) - math.max(waited, 0)), 1)
  headers:replace("x-request-timeout-ms", string.format("%.0f", rest))
end
"""
_START: Final = "%START_TIME(%s.%3f)%"
RESTART_RETRIES: Final = 120
"""Attempts to reach a controller that restarts, some two minutes of them."""
_TYPES: Final = "type.googleapis.com/envoy.extensions"
_MANAGER: Final = "filters.network.http_connection_manager.v3.HttpConnectionManager"


def mark(pool: str) -> Json:
    """Return the header by which the controller knows a request's pool, arrival and time-out, in place of a client's."""
    return _header(HEADER_HELD, f"{pool} {_START} %REQ(x-request-timeout-ms)%")


def remaining_timeout() -> list[Json]:
    """Return the filters of a held pool's cluster: a request that waited has only the rest of its time-out at the pod.

    They run for each attempt, and compute from the mark, which no attempt changes.
    """
    lua = {"@type": f"{_TYPES}.filters.http.lua.v3.Lua"}
    codec = {"@type": f"{_TYPES}.filters.http.upstream_codec.v3.UpstreamCodec"}
    return [
        {
            "name": "envoy.filters.http.lua",
            "typed_config": {**lua, "default_source_code": {"inline_string": REMAINING_TIMEOUT}},
        },
        {"name": "envoy.filters.http.upstream_codec", "typed_config": codec},
    ]


def hold_listener(settings: GatewaySettings) -> Json:
    """Return the listener at which held requests wait."""
    silent = f"{settings.max_silent_seconds:.3f}s"
    route = {
        "cluster": HOLD,
        "timeout": "0s",
        "idle_timeout": silent,
        "retry_policy": {
            "retry_on": "reset,connect-failure",
            "num_retries": RESTART_RETRIES,
            "retry_back_off": {"base_interval": "0.1s", "max_interval": "1s"},
        },
    }
    host = {
        "name": HOLD,
        "domains": ["*"],
        "request_headers_to_add": [_header(HEADER_HELD_SINCE, _START)],
        "routes": [{"match": {"prefix": "/"}, "route": route}],
    }
    manager = {
        "@type": f"{_TYPES}.{_MANAGER}",
        "stat_prefix": HOLD,
        "stream_idle_timeout": silent,
        "max_request_headers_kb": 96,
        "common_http_protocol_options": {"max_headers_count": 200},
        "generate_request_id": False,
        "route_config": {"name": HOLD, "virtual_hosts": [host]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {
                    "@type": f"{_TYPES}.filters.http.router.v3.Router",
                    "suppress_envoy_headers": True,
                },
            }
        ],
    }
    http = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    return {
        "name": HOLD,
        "address": {"pipe": {"path": str(settings.hold_listener_socket), "mode": 0o600}},
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
        "filter_chains": [{"filters": [http]}],
    }


def hold_cluster(settings: GatewaySettings) -> Json:
    """Return the cluster of the controller's server."""
    limit = 1_000_000
    address = {"pipe": {"path": str(settings.hold_socket)}}
    breakers = {
        "max_connections": limit,
        "max_pending_requests": limit,
        "max_requests": limit,
        "max_retries": limit,
    }
    return {
        "name": HOLD,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [breakers]},
        "load_assignment": {
            "cluster_name": HOLD,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }


def _header(key: str, value: str) -> Json:
    return {
        "header": {"key": key, "value": value},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
