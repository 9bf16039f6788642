"""`Snapshot`: the pools that lead to this gateway, each with its listener's port and the pods that serve it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock_api import names
from penstock_gateway.config import Settings
from penstock_gateway.objects import Pod, Service

MIN_PORT: Final = 1024
"""Smallest port of a listener: Envoy runs without the capability to bind a smaller one."""
MAX_PORT: Final = 65535
HTTPS: Final = "https"


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """A pod that serves requests."""

    pod: str
    address: str
    port: int = names.CLIENT_PORT


@dataclass(frozen=True, slots=True)
class Route:
    """A pool: the listener's port and the endpoints, in order of their names."""

    pool: str
    port: int
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that Envoy's configuration depends on, besides the settings."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    """By the name of the pool."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Services that lead here and are not routed, by name, with the reason and the remedy."""


class Unroutable(Exception):
    """A Service cannot be routed; the message has the reason and the remedy."""


def snapshot(services: Iterable[Service], pods: Iterable[Pod], settings: Settings) -> Snapshot:
    """Return the routes of the Services whose selector is this gateway's label.

    A Service belongs to the pool of its label `penstock.dev/pool`, and so do pods; with `penstock.dev/pool-uid` on the
    Service, only pods of that very pool. A Service that cannot be routed is a problem of its own and of no other.
    """
    of_pool = defaultdict(list)
    for pod in pods:
        of_pool[pod.metadata.labels.get(names.LABEL_POOL, "")].append(pod)
    selector = {names.LABEL_GATEWAY: settings.gateway}
    leading_here = [
        service for service in services if service.spec.selector == selector and _pool(service)
    ]
    routes: dict[str, Route] = {}
    problems: dict[str, str] = {}
    for service in sorted(leading_here, key=_own_name_first):
        try:
            route = _route(service, of_pool[_pool(service)], settings.reserved_ports)
            _check_conflicts(route, routes)
        except Unroutable as problem:
            problems[service.metadata.name] = str(problem)
        else:
            routes[route.pool] = route
    return Snapshot(routes, problems)


def _pool(service: Service) -> str:
    return service.metadata.labels.get(names.LABEL_POOL, "")


def _own_name_first(service: Service) -> tuple[bool, str]:
    return _pool(service) != service.metadata.name, service.metadata.name


def _route(service: Service, pods: list[Pod], reserved_ports: frozenset[int]) -> Route:
    uid = service.metadata.labels.get(names.LABEL_POOL_UID)
    own = [pod for pod in pods if uid in (None, pod.metadata.labels.get(names.LABEL_POOL_UID))]
    if any(pod.metadata.annotations.get(names.ANNOTATION_SCHEME) == HTTPS for pod in own):
        raise Unroutable("the gateway does not support pods that serve TLS: select the pods")
    endpoints = sorted(Endpoint(pod.metadata.name, pod.status.ip) for pod in own if pod.serves)
    return Route(_pool(service), _listener_port(service, reserved_ports), tuple(endpoints))


def _listener_port(service: Service, reserved_ports: frozenset[int]) -> int:
    targets = [port.target for port in service.spec.ports if port.name == names.CLIENT_PORT_NAME]
    if not targets:
        raise Unroutable(f"the Service has no port named {names.CLIENT_PORT_NAME}: add it")
    target = targets[0]
    if not isinstance(target, int) or not MIN_PORT <= target <= MAX_PORT:
        raise Unroutable(
            f"targetPort must be a listener's port from {MIN_PORT} to {MAX_PORT}, got {target!r}"
        )
    if target in reserved_ports:
        raise Unroutable(f"targetPort {target} is a port of the gateway itself: allocate another")
    return target


def _check_conflicts(route: Route, routes: Mapping[str, Route]) -> None:
    if route.pool in routes:
        raise Unroutable(f"another Service already routes pool {route.pool}: delete this one")
    for other in routes.values():
        if other.port == route.port:
            raise Unroutable(
                f"targetPort {route.port} is already that of pool {other.pool}: allocate another"
            )
