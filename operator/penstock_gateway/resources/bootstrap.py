"""Envoy's bootstrap: its identity, the source of its configuration, and the limits at which it sheds load."""

from typing import Any, Final

from penstock_gateway.config import GatewaySettings
from penstock_gateway.resources.hold import hold_cluster, hold_listener
from penstock_gateway.resources.stats import histogram_buckets, tags

Json = dict[str, Any]

ADS_CLUSTER: Final = "penstock/ads"
"""Name of the cluster of the controller's ADS server, which no pool can have."""
_MONITORS: Final = "type.googleapis.com/envoy.extensions.resource_monitors"
REFRESH_INTERVAL: Final = "0.1s"
"""Between two reads of the heap: bodies that arrive with 10 Gbit/s in the meantime fit between heap and memory limit."""
HEAP_MONITOR: Final = "envoy.resource_monitors.fixed_heap"
SHED: Final = (
    ("envoy.overload_actions.shrink_heap", 0.85),
    ("envoy.overload_actions.disable_http_keepalive", 0.90),
    ("envoy.overload_actions.stop_accepting_requests", 0.95),
    ("envoy.overload_actions.stop_accepting_connections", 0.98),
)
"""Actions by the share of the heap at which they begin. They concern new requests and connections only."""
SHED_UPLOADS: Final = 0.97
"""Share of the heap from which a connection that sends more ends, with all its streams if it is HTTP/2.

A request that is whole on a connection of its own waits for its answer.
"""
UPLOAD_POINTS: Final = (
    "envoy.load_shed_points.http1_server_abort_dispatch",
    "envoy.load_shed_points.http2_server_go_away_and_close_on_dispatch",
)
"""Where Envoy refuses what a client sends: bodies of accepted requests, which it keeps whole, would grow past the heap."""


def bootstrap(settings: GatewaySettings) -> Json:
    """Return the bootstrap. The admin interface is a Unix socket: it can change everything and authenticates nothing."""
    admin = {"pipe": {"path": str(settings.admin_socket), "mode": 0o600}}
    source = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    return {
        "node": {"id": settings.pod_name, "cluster": f"{settings.namespace}/{settings.gateway}"},
        "admin": {"address": admin},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [
                    {"envoy_grpc": {"cluster_name": ADS_CLUSTER, "authority": "penstock"}}
                ],
            },
            "lds_config": source,
            "cds_config": source,
        },
        "static_resources": {
            "clusters": [_ads_cluster(settings), hold_cluster(settings)],
            "listeners": [hold_listener(settings)],
        },
        "stats_config": {
            "stats_tags": tags(),
            "histogram_bucket_settings": [histogram_buckets()],
        },
        "overload_manager": _overload_manager(settings),
    }


def _ads_cluster(settings: GatewaySettings) -> Json:
    address = {"pipe": {"path": str(settings.ads_socket)}}
    options = {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {
            # a server that hangs is connected to again; the configuration in force stays
            "http2_protocol_options": {
                "connection_keepalive": {"interval": "30s", "timeout": "10s"}
            }
        },
    }
    return {
        "name": ADS_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options
        },
        "load_assignment": {
            "cluster_name": ADS_CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }


def _overload_manager(settings: GatewaySettings) -> Json:
    heap = {
        "@type": f"{_MONITORS}.fixed_heap.v3.FixedHeapConfig",
        "max_heap_size_bytes": settings.heap_bytes,
    }
    connections = {
        "@type": f"{_MONITORS}.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": settings.max_connections,
    }
    connections_name = "envoy.resource_monitors.global_downstream_max_connections"
    return {
        "refresh_interval": REFRESH_INTERVAL,
        "resource_monitors": [
            {"name": HEAP_MONITOR, "typed_config": heap},
            {"name": connections_name, "typed_config": connections},
        ],
        "actions": [_above(share, action) for action, share in SHED],
        "loadshed_points": [_above(SHED_UPLOADS, point) for point in UPLOAD_POINTS],
    }


def _above(share: float, name: str) -> Json:
    """Return the action or the load-shed point `name`, triggered by this share of the heap."""
    return {"name": name, "triggers": [{"name": HEAP_MONITOR, "threshold": {"value": share}}]}
