"""The resources against Envoy's guide "Configuring Envoy as an edge proxy", point by point."""

from typing import Any

import pytest

from penstock_api.body_limits import BodyLimits
from penstock_gateway.objects import PoolCertificate
from penstock_gateway.resources.bootstrap import bootstrap
from penstock_gateway.resources.cluster import cluster
from penstock_gateway.resources.listener import listener, readiness_listener
from penstock_gateway.snapshot import Route
from tests.unit.gateway.values import SETTINGS

ROUTE = Route("demo", 10001, certificate=PoolCertificate("chain", "key"))
LISTENER = listener(ROUTE, SETTINGS)
(CHAIN,) = LISTENER["filter_chains"]
LIMIT, MANAGER = (each["typed_config"] for each in CHAIN["filters"])
BOOTSTRAP = bootstrap(SETTINGS)


def monitors() -> dict[str, dict[str, Any]]:
    manager = BOOTSTRAP["overload_manager"]
    return {monitor["name"]: monitor["typed_config"] for monitor in manager["resource_monitors"]}


def test_the_admin_interface_is_not_on_the_network() -> None:
    assert list(BOOTSTRAP["admin"]["address"]) == ["pipe"]
    assert BOOTSTRAP["admin"]["address"]["pipe"]["mode"] == 0o600


def test_memory_and_connections_are_bounded() -> None:
    heap = monitors()["envoy.resource_monitors.fixed_heap"]["max_heap_size_bytes"]
    assert heap == SETTINGS.heap_bytes
    connections = monitors()["envoy.resource_monitors.global_downstream_max_connections"]
    assert connections["max_active_downstream_connections"] == SETTINGS.max_connections
    actions = {action["name"] for action in BOOTSTRAP["overload_manager"]["actions"]}
    assert "envoy.overload_actions.shrink_heap" in actions
    assert "envoy.overload_actions.stop_accepting_requests" in actions
    assert LIMIT["max_connections"] == SETTINGS.max_pool_connections


def test_uploads_end_before_the_heap_is_full_and_after_new_requests_are_refused() -> None:
    manager = BOOTSTRAP["overload_manager"]
    shares = {
        each["name"].removeprefix("envoy."): each["triggers"][0]["threshold"]["value"]
        for each in (*manager["actions"], *manager["loadshed_points"])
    }
    refused = shares["overload_actions.stop_accepting_requests"]
    for codec in ("http1_server_abort", "http2_server_go_away_and_close_on"):
        assert refused < shares[f"load_shed_points.{codec}_dispatch"] < 1


def test_the_readiness_listener_has_a_limit_of_its_own_and_no_other() -> None:
    readiness = readiness_listener("penstock/readiness", SETTINGS)
    assert readiness["ignore_global_conn_limit"]
    assert readiness["bypass_overload_manager"]
    limit = readiness["filter_chains"][0]["filters"][0]["typed_config"]
    assert limit["max_connections"] < SETTINGS.max_connections
    assert "ignore_global_conn_limit" not in LISTENER


def test_buffers_are_small() -> None:
    assert LISTENER["per_connection_buffer_limit_bytes"] == 32 * 1024
    assert cluster(ROUTE, SETTINGS)["per_connection_buffer_limit_bytes"] == 32 * 1024


def test_nothing_that_a_client_claims_is_trusted() -> None:
    assert MANAGER["use_remote_address"] is True
    assert MANAGER["xff_num_trusted_hops"] == 0
    options = MANAGER["common_http_protocol_options"]
    assert options["headers_with_underscores_action"] == "REJECT_REQUEST"
    assert MANAGER["normalize_path"] is True


def test_every_wait_for_a_client_ends() -> None:
    assert CHAIN["transport_socket_connect_timeout"] == "10s"
    assert MANAGER["request_headers_timeout"] == "10s"
    assert MANAGER["request_timeout"] == "60.000s"
    assert MANAGER["stream_idle_timeout"] == "3600.000s"
    assert MANAGER["common_http_protocol_options"]["idle_timeout"] == "600s"


@pytest.mark.parametrize(
    ("pool", "max_bytes", "timeout"),
    [
        (BodyLimits(), 64 * 2**20, "60.000s"),
        (BodyLimits(256 * 2**20, 300), 256 * 2**20, "300.000s"),
        (BodyLimits(1024), 1024, "60.000s"),
        (BodyLimits(2**40, 10**9), 2**32 - 1, "3600.000s"),
    ],
)
def test_the_limits_of_a_body_are_the_pools_within_those_of_envoy(
    pool: BodyLimits, max_bytes: int, timeout: str
) -> None:
    (chain,) = listener(Route("demo", 10001, body=pool), SETTINGS)["filter_chains"]
    manager = chain["filters"][-1]["typed_config"]
    assert manager["request_timeout"] == timeout
    (buffer, _) = (each["typed_config"] for each in manager["http_filters"])
    assert buffer["max_request_bytes"] == max_bytes


def test_http_2_is_bounded() -> None:
    assert MANAGER["http2_protocol_options"] == {
        "max_concurrent_streams": 100,
        "initial_stream_window_size": 64 * 1024,
        "initial_connection_window_size": 1024 * 1024,
    }


def test_tls_is_new_enough() -> None:
    context = CHAIN["transport_socket"]["typed_config"]["common_tls_context"]
    assert context["tls_params"] == {"tls_minimum_protocol_version": "TLSv1_2"}
