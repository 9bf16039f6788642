"""Settings and objects of the gateway's unit tests."""

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock_gateway.config import GatewaySettings
from penstock_gateway.objects import WatchedPod, WatchedService
from penstock_gateway.resources.pools import Configuration, configuration
from penstock_gateway.snapshot import Endpoint, Route, Snapshot
from tests.support.gateway import api_server

SETTINGS = GatewaySettings(namespace="team-a", gateway="test", pod_name="gateway-0")


def service(pool: str, port: int | str = 10001, **more: Any) -> WatchedService:
    """Return a Service as the API server's JSON decodes to it."""
    return msgspec.convert(api_server.service(pool, port, **more), WatchedService)


def pod(name: str, pool: str, address: str = "10.0.0.1", **more: Any) -> WatchedPod:
    """Return a pod as the API server's JSON decodes to it."""
    return msgspec.convert(api_server.pod(name, pool, address, **more), WatchedPod)


def made_of(*routes: Route) -> Configuration:
    """Return the configuration of these routes."""
    return configuration(Snapshot({route.pool: route for route in routes}), SETTINGS)


def route(pool: str, port: int = 10001, addresses: Iterable[str] = ("10.0.0.1",)) -> Route:
    """Return a route."""
    return Route(pool, port, tuple(Endpoint(f"pod-{address}", address) for address in addresses))
