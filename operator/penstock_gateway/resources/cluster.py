"""Cluster and endpoints of a pool: whole-request spreading, ejection of dead pods, a bound on retries."""

from typing import Any, Final

from penstock_api.hold import HoldLimits
from penstock_gateway.config import GatewaySettings
from penstock_gateway.resources.hold import remaining_timeout
from penstock_gateway.resources.tls import SECURE_ENDPOINT, transport_sockets
from penstock_gateway.snapshot import Endpoint, Route

Json = dict[str, Any]

CONNECT_TIMEOUT: Final = "1s"
"""A pod is in the same cluster; a connection that takes longer is retried on another pod."""
IDLE_TIMEOUT: Final = "60s"
"""Below the 75 s after which pods close silent connections, so that Envoy never writes to one that is closing."""
ONE_SERVES: Final = 100_000
"""Percentage by which healthy pods count: with one of a thousand, no request goes to the next priority."""
BUFFER_BYTES: Final = 2**15
"""Of a connection, in each direction; whole request bodies are kept in addition, up to the limit of a body."""
UNLIMITED: Final = 1_000_000
"""Circuit breakers stay out of the way: pods bound their queues, and the listener bounds connections."""


def cluster(route: Route, settings: GatewaySettings) -> Json:
    """Return the cluster of a pool; its endpoints follow by EDS."""
    pool = route.pool
    return {
        "name": pool,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}},
        "connect_timeout": CONNECT_TIMEOUT,
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "load_balancing_policy": {"policies": [_least_request()]},
        "common_lb_config": {
            # a pool without ready pods answers 503 and never sends requests to pods that are not ready
            "healthy_panic_threshold": {"value": 0},
            # Merged for a second, an ejection would come too late: a dead pod has the least requests in flight, so the
            # full scan chooses it for every request, and for every retry, until it is ejected.
            "update_merge_window": "0s",
        },
        "outlier_detection": _outlier_detection(),
        "circuit_breakers": {"thresholds": [_thresholds(route.hold)]},
        # a node that loses power sends no reset: its connections end after 30 s
        "upstream_connection_options": {
            "tcp_keepalive": {
                "keepalive_time": 15,
                "keepalive_interval": 5,
                "keepalive_probes": 3,
            }
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "common_http_protocol_options": {"idle_timeout": IDLE_TIMEOUT},
                "explicit_http_config": {"http_protocol_options": {}},
                **({"http_filters": remaining_timeout()} if route.hold else {}),
            }
        },
        **transport_sockets(route, settings),
    }


def endpoints(route: Route, settings: GatewaySettings) -> Json:
    """Return the ClusterLoadAssignment of a pool.

    A held pool has the hold listener as its second priority: Envoy takes it while no pod is there or all are ejected, and
    never while one serves, since each pod counts as enough for the whole pool.
    """
    pods = [_endpoint(pod) for pod in route.endpoints]
    assignment: Json = {"cluster_name": route.pool, "endpoints": [{"lb_endpoints": pods}]}
    if route.hold is None:
        return assignment
    listener = {"endpoint": {"address": {"pipe": {"path": str(settings.hold_listener_socket)}}}}
    assignment["endpoints"].append({"lb_endpoints": [listener], "priority": 1})
    return {**assignment, "policy": {"overprovisioning_factor": ONE_SERVES}}


def _endpoint(pod: Endpoint) -> Json:
    socket_address = {"address": pod.address, "port_value": pod.port}
    endpoint: Json = {"endpoint": {"address": {"socket_address": socket_address}}}
    if pod.weight != 1:
        endpoint["load_balancing_weight"] = pod.weight
    return {**endpoint, "metadata": SECURE_ENDPOINT} if pod.secure else endpoint


def _least_request() -> Json:
    """Every pod is compared, since two random choices of eight pods leave a tenth more in the mean."""
    kind = "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest"
    return {
        "typed_extension_config": {
            "name": "envoy.load_balancing_policies.least_request",
            "typed_config": {
                "@type": f"type.googleapis.com/{kind}",
                "selection_method": "FULL_SCAN",
            },
        }
    }


def _outlier_detection() -> Json:
    """Eject pods that refuse or reset connections, and none for the status of an answer.

    A client can provoke a 500 or a 503 at will, so statuses would let one client eject every pod of a pool. All pods may
    be ejected: a dead one that is not has the least requests in flight, so the full scan chooses it for every request.
    """
    return {
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 2,
        "enforcing_consecutive_local_origin_failure": 100,
        "enforcing_consecutive_5xx": 0,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
        "interval": "1s",
        "base_ejection_time": "5s",
        "max_ejection_time": "30s",
        "max_ejection_percent": 100,
    }


def _thresholds(hold: HoldLimits | None) -> Json:
    """Return the circuit breakers; the release of a held request is a retry."""
    releases = hold.max_requests if hold else 0
    return {
        "max_connections": UNLIMITED,
        "max_pending_requests": UNLIMITED,
        "max_requests": UNLIMITED,
        # of two pods one that dies holds half of all requests: retries may at most double the load
        "retry_budget": {"budget_percent": {"value": 100}, "min_retry_concurrency": 64 + releases},
    }
