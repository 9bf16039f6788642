"""Listener of a pool, hardened as Envoy's guide "Configuring Envoy as an edge proxy" says.

Differences from the guide, with their reasons: slashes are neither merged nor unescaped, since names of models contain
them and no rule of the gateway depends on a path; a request may be silent for long, since an answer may take long to
compute; whole bodies are kept for retries, in addition to the buffers.
"""

from typing import Any, Final

from penstock_api import names
from penstock_gateway.config import BOUNDS, GatewaySettings
from penstock_gateway.resources.cluster import BUFFER_BYTES
from penstock_gateway.resources.hold import HEADER_FINAL, mark
from penstock_gateway.resources.stats import LISTENER_PREFIX, at_end, counting, log_options
from penstock_gateway.resources.tls import serving_tls
from penstock_gateway.snapshot import Route

Json = dict[str, Any]

MAX_BODY_BYTES, MAX_BODY_SECONDS = (
    int(BOUNDS[name][1]) for name in ("max_body_bytes", "body_timeout_seconds")
)
"""Bounds of what a pool sets: Envoy's, and those of `bodyTimeoutSeconds`."""
MAX_HEADERS_KIB: Final = 32
MAX_HEADERS: Final = 100
HEADERS_TIMEOUT: Final = "10s"
IDLE_TIMEOUT: Final = "600s"
"""Of a client's connection without requests."""
READINESS_CONNECTIONS: Final = 1000
"""At the readiness listener, which no other limit bounds."""
STREAMS_PER_CONNECTION: Final = 100
STREAM_WINDOW_BYTES, CONNECTION_WINDOW_BYTES = 2**16, 2**20
RETRIES: Final = 5
HELD_RETRIES: Final = 30
"""Of a request that may be held. While every pod is dead and listed, each end of their ejection can use up one retry for
the release and two for each dead pod, after which they are ejected again."""
BEHIND_GATEWAY: Final[Json] = {
    "header": {"key": names.HEADER_GATEWAY, "value": "1"},
    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
}
_TYPES: Final = "type.googleapis.com/envoy.extensions"
_MANAGER: Final = "filters.network.http_connection_manager.v3.HttpConnectionManager"


def listener(route: Route, settings: GatewaySettings) -> Json:
    """Return the listener of a pool: every path, HTTP/1.1 and HTTP/2, over TLS if the pool has a certificate."""
    pool, body = route.pool, route.body
    max_bytes = min(body.max_bytes or settings.max_body_bytes, MAX_BODY_BYTES)
    seconds = min(body.timeout_seconds or settings.body_timeout_seconds, MAX_BODY_SECONDS)
    manager = {
        **_hardened(settings, seconds),
        "stat_prefix": f"{LISTENER_PREFIX}{pool}",
        "route_config": {"name": pool, "virtual_hosts": [_virtual_host(route)]},
        "http_filters": [
            # reads a body whole, up to the limit: no pod waits for a slow client, and any body can be sent again
            _extension(
                "envoy.filters.http.buffer",
                "filters.http.buffer.v3.Buffer",
                max_request_bytes=max_bytes,
            ),
            _extension(
                "envoy.filters.http.router",
                "filters.http.router.v3.Router",
                suppress_envoy_headers=True,
            ),
        ],
        "access_log": [*counting(pool), *(_access_log() if settings.access_log else [])],
        "access_log_options": log_options(),
    }
    limit = _connection_limit(pool, settings.max_pool_connections)
    http = _extension("envoy.filters.network.http_connection_manager", _MANAGER, **manager)
    chain = {"filters": [limit, http], **(serving_tls(pool) if route.certificate else {})}
    return _listener(pool, settings.host, route.port, chain)


def readiness_listener(name: str, settings: GatewaySettings) -> Json:
    """Return the listener of the gateway's own readiness: 200, or 503 once it drains; it is sent last of all.

    Connections and memory of the pools do not close it: the kubelet would take the gateway's pod out of service for every
    pool. Its own connections are few.
    """
    check = _extension(
        "envoy.filters.http.health_check",
        "filters.http.health_check.v3.HealthCheck",
        pass_through_mode=False,
        headers=[{"name": ":path", "string_match": {"exact": "/readyz"}}],
    )
    router = _extension("envoy.filters.http.router", "filters.http.router.v3.Router")
    manager = {
        **_hardened(settings, settings.body_timeout_seconds),
        "stat_prefix": name,
        "route_config": {
            "name": name,
            "virtual_hosts": [
                {
                    "name": name,
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 404}}],
                }
            ],
        },
        "http_filters": [check, router],
    }
    http = _extension("envoy.filters.network.http_connection_manager", _MANAGER, **manager)
    chain = {"filters": [_connection_limit(name, READINESS_CONNECTIONS), http]}
    return {
        **_listener(name, settings.host, settings.readiness_port, chain),
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
    }


def _connection_limit(name: str, connections: int) -> Json:
    return _extension(
        "envoy.filters.network.connection_limit",
        "filters.network.connection_limit.v3.ConnectionLimit",
        stat_prefix=name,
        max_connections=connections,
    )


def _listener(name: str, host: str, port: int, chain: Json) -> Json:
    address: Json = {"address": host, "port_value": port}
    if ":" in host:
        address["ipv4_compat"] = True
    return {
        "name": name,
        "address": {"socket_address": address},
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "filter_chains": [chain],
    }


def _hardened(settings: GatewaySettings, request_seconds: float) -> Json:
    """Return the options of a connection manager that faces clients that are not trusted; they have `request_seconds` for a request."""
    return {
        "codec_type": "AUTO",
        # the peer is the client: its address is appended to X-Forwarded-For, and nothing that it claims is trusted
        "use_remote_address": True,
        "xff_num_trusted_hops": 0,
        "internal_address_config": {"unix_sockets": False, "cidr_ranges": []},
        "early_header_mutation_extensions": [_strip_envoy_headers()],
        "generate_request_id": False,
        "preserve_external_request_id": True,
        "server_header_transformation": "PASS_THROUGH",
        "normalize_path": True,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "max_request_headers_kb": MAX_HEADERS_KIB,
        "request_headers_timeout": HEADERS_TIMEOUT,
        "request_timeout": _seconds(request_seconds),
        "stream_idle_timeout": _seconds(settings.max_silent_seconds),
        "common_http_protocol_options": {
            "idle_timeout": IDLE_TIMEOUT,
            "max_headers_count": MAX_HEADERS,
            "headers_with_underscores_action": "REJECT_REQUEST",
        },
        "http2_protocol_options": {
            "max_concurrent_streams": STREAMS_PER_CONNECTION,
            "initial_stream_window_size": STREAM_WINDOW_BYTES,
            "initial_connection_window_size": CONNECTION_WINDOW_BYTES,
        },
    }


def _virtual_host(route: Route) -> Json:
    """Return the virtual host of a pool: no deadline of the gateway's own, retries before the first byte alone."""
    previous_hosts = _extension(
        "envoy.retry_host_predicates.previous_hosts",
        "retry.host.previous_hosts.v3.PreviousHostsPredicate",
    )
    pool = route.pool
    return {
        "name": pool,
        "domains": ["*"],
        "request_headers_to_add": [BEHIND_GATEWAY, *([mark(pool)] if route.hold else [])],
        "request_headers_to_remove": ["x-envoy-internal", "x-envoy-external-address"],
        "response_headers_to_remove": [HEADER_FINAL],
        "routes": [
            {
                "match": {"prefix": "/"},
                "route": {
                    "cluster": pool,
                    "timeout": "0s",
                    "retry_policy": {
                        "retry_on": "reset,connect-failure,refused-stream,retriable-status-codes",
                        "retriable_status_codes": [503],
                        "num_retries": HELD_RETRIES if route.hold else RETRIES,
                        "retry_host_predicate": [previous_hosts],
                        "host_selection_retry_max_attempts": 5,
                        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.25s"},
                    },
                },
            }
        ],
    }


def _strip_envoy_headers() -> Json:
    """Remove headers by which clients would set time-outs and retries of Envoy's router."""
    mutation = {"remove_on_match": {"key_matcher": {"prefix": "x-envoy-", "ignore_case": True}}}
    return _extension(
        "envoy.http.early_header_mutation.header_mutation",
        "http.early_header_mutation.header_mutation.v3.HeaderMutation",
        mutations=[mutation],
    )


def _access_log() -> list[Json]:
    """One JSON line for each request; no header that carries a key, and no query."""
    fields = {
        "time": "%START_TIME%",
        "pool": "%UPSTREAM_CLUSTER%",
        "method": "%REQ(:METHOD)%",
        "path": "%PATH(NQ)%",
        "protocol": "%PROTOCOL%",
        "status": "%RESPONSE_CODE%",
        "details": "%RESPONSE_CODE_DETAILS%",
        "flags": "%RESPONSE_FLAGS%",
        "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
        "bytes_received": "%BYTES_RECEIVED%",
        "bytes_sent": "%BYTES_SENT%",
        "milliseconds": "%DURATION%",
        "pod": "%UPSTREAM_HOST%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "request_id": "%REQ(X-REQUEST-ID)%",
    }
    log = _extension(
        "envoy.access_loggers.stdout",
        "access_loggers.stream.v3.StdoutAccessLog",
        log_format={"json_format": fields},
    )
    return [{**log, "filter": at_end()}]


def _extension(name: str, kind: str, **config: object) -> Json:
    return {"name": name, "typed_config": {"@type": f"{_TYPES}.{kind}", **config}}


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}s"
