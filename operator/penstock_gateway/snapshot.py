"""`Snapshot`: the pools that this gateway routes, each with its listener's port and the pods that serve it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from penstock_api import names
from penstock_api.body_limits import NO_BODY_LIMITS, BodyLimits
from penstock_api.hold import HoldLimits
from penstock_gateway.config import GatewaySettings
from penstock_gateway.objects import PoolCertificate, WatchedPod, WatchedService

MIN_PORT: Final = 1024
"""Smallest port of a listener: Envoy runs without the capability to bind a smaller one."""
MAX_PORT: Final = 65535
NO_CERTIFICATE: Final = "the gateway has no certificate of the pool: create the Secret of spec.tls, with tls.crt and tls.key"


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """A pod that serves requests."""

    pod: str
    address: str
    port: int = names.CLIENT_PORT
    secure: bool = False
    """Whether the pod serves TLS; during a rollout of `spec.tls`, pods differ."""
    weight: int = 1
    """Share of the requests next to other pods of the pool, 1 or more; pods of variants differ."""


@dataclass(frozen=True, slots=True)
class Route:
    """A pool: the listener's port and the endpoints, in order of their names."""

    pool: str
    port: int
    endpoints: tuple[Endpoint, ...] = ()
    hold: HoldLimits | None = None
    """How requests are held while there is no endpoint; None: they are answered with 503."""
    certificate: PoolCertificate | None = None
    """What clients are served with; None: plain HTTP."""
    body: BodyLimits = NO_BODY_LIMITS
    """Limits of a request's body; those that are unset are the settings'."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that Envoy's configuration depends on, besides the settings."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    """By the name of the pool."""
    draining: Mapping[str, Route] = field(default_factory=dict)
    """Pools without a listener any more, whose connections still end, by name."""
    kept: Mapping[str, Route] = field(default_factory=dict)
    """Pools whose Service cannot be routed now, by name: their pods, and how requests are held. What Envoy has of them stays."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Services that announce a listener and are not routed, by name, with the reason and the remedy."""

    @property
    def served(self) -> Mapping[str, Route]:
        """Every pool of which Envoy may have a listener, by name: those that are kept, and those that are routed."""
        return {**self.kept, **self.routes}


class Unroutable(Exception):
    """A Service cannot be routed; the message has the reason and the remedy."""


def snapshot(
    services: Iterable[WatchedService],
    pods: Iterable[WatchedPod],
    settings: GatewaySettings,
    certificates: Mapping[str, PoolCertificate | str] = MappingProxyType({}),
) -> Snapshot:
    """Return the routes of the Services that announce a listener's port in `penstock.dev/gateway-port`.

    The operator announces the port before the Service selects the gateway, and a while longer than it does, so that a
    client meets a listener at every moment of a change.
    A Service belongs to the pool of its label `penstock.dev/pool`, and so do pods, and those of its variants by
    `penstock.dev/variant-of`; with `penstock.dev/pool-uid` on the Service, only pods of that very pool. A Service that cannot be routed is a problem of its own and of no other,
    and its pool is kept unless another Service routes it.
    """
    of_pool = defaultdict(list)
    for pod in pods:
        for label in (names.LABEL_POOL, names.LABEL_VARIANT_OF):
            of_pool[pod.metadata.labels.get(label, "")].append(pod)
    announcing = [service for service in services if _announced(service) and _pool(service)]
    routes: dict[str, Route] = {}
    kept: dict[str, Route] = {}
    problems: dict[str, str] = {}
    pool_of_port: dict[int, str] = {}
    for service in sorted(announcing, key=_own_name_first):
        known = _without_listener(service, of_pool[_pool(service)])
        try:
            route = _route(service, known, settings.reserved_ports, certificates)
            _check_conflicts(route, routes, pool_of_port)
        except Unroutable as problem:
            problems[service.metadata.name] = str(problem)
            kept.setdefault(known.pool, known)
        else:
            routes[route.pool] = route
            pool_of_port[route.port] = route.pool
    kept = {pool: route for pool, route in kept.items() if pool not in routes}
    return Snapshot(routes, kept=kept, problems=problems)


def draining(pools: Iterable[str], pods: Iterable[WatchedPod]) -> dict[str, Route]:
    """Return the routes of pools without a listener: their pods, for requests on connections that are still open."""
    routes = {}
    known = list(pods)
    for pool in pools:
        own = (pod for pod in known if pool in pools_of(pod))
        routes[pool] = Route(pool, 0, _endpoints(own))
    return routes


def deleted(pools: Iterable[str], services: Iterable[WatchedService]) -> frozenset[str]:
    """Return those pools without a Service; a pool that only leaves the gateway keeps its own."""
    return frozenset(pools) - {_pool(service) for service in services}


def pools_of(pod: WatchedPod) -> tuple[str | None, ...]:
    """Return the pool of a pod, and the pool with variants of which that one is."""
    labels = pod.metadata.labels
    return labels.get(names.LABEL_POOL), labels.get(names.LABEL_VARIANT_OF)


def _endpoints(
    pods: Iterable[WatchedPod], weights: Mapping[str, int] = MappingProxyType({})
) -> tuple[Endpoint, ...]:
    """Return the pods that serve; `weights` by variant, of which one without has the lowest."""
    lowest = min(weights.values(), default=1)
    serving = [
        Endpoint(
            pod.metadata.name,
            pod.status.ip,
            secure=pod.secure,
            weight=weights.get(pod.metadata.labels.get(names.LABEL_VARIANT, ""), lowest),
        )
        for pod in pods
        if pod.serves
    ]
    return tuple(sorted(serving))


def _pool(service: WatchedService) -> str:
    return service.metadata.labels.get(names.LABEL_POOL, "")


def _own_name_first(service: WatchedService) -> tuple[bool, str]:
    return _pool(service) != service.metadata.name, service.metadata.name


def _without_listener(service: WatchedService, pods: list[WatchedPod]) -> Route:
    """Return what does not depend on the listener: the pods, and how requests are held."""
    uid = service.metadata.labels.get(names.LABEL_POOL_UID)
    own = [pod for pod in pods if uid is None or uid in _uids_of(pod)]
    hold = HoldLimits.from_annotation(
        service.metadata.annotations.get(names.ANNOTATION_GATEWAY_HOLD)
    )
    weights = names.variant_weights(
        service.metadata.annotations.get(names.ANNOTATION_GATEWAY_WEIGHTS, "")
    )
    return Route(_pool(service), 0, _endpoints(own, weights), hold)


def _route(
    service: WatchedService,
    known: Route,
    reserved_ports: frozenset[int],
    certificates: Mapping[str, PoolCertificate | str],
) -> Route:
    """Return what is `known` of the pool, with its listener's port, certificate and limits of bodies."""
    certificate = certificates.get(known.pool, NO_CERTIFICATE) if service.secure else None
    if isinstance(certificate, str):
        raise Unroutable(certificate)
    return replace(
        known,
        port=_listener_port(service, reserved_ports),
        certificate=certificate,
        body=BodyLimits.from_annotation(
            service.metadata.annotations.get(names.ANNOTATION_GATEWAY_BODY)
        ),
    )


def _uids_of(pod: WatchedPod) -> tuple[str | None, ...]:
    labels = pod.metadata.labels
    return labels.get(names.LABEL_POOL_UID), labels.get(names.LABEL_VARIANT_OF_UID)


def _announced(service: WatchedService) -> str | None:
    return service.metadata.annotations.get(names.ANNOTATION_GATEWAY_PORT)


def _listener_port(service: WatchedService, reserved_ports: frozenset[int]) -> int:
    text = _announced(service) or ""
    port = int(text) if text.isascii() and text.isdecimal() else 0
    if not MIN_PORT <= port <= MAX_PORT:
        raise Unroutable(
            f"{names.ANNOTATION_GATEWAY_PORT} must be a listener's port from {MIN_PORT} to {MAX_PORT}, got {text!r}"
        )
    if port in reserved_ports:
        raise Unroutable(f"port {port} is a port of the gateway itself: allocate another")
    return port


def _check_conflicts(
    route: Route, routes: Mapping[str, Route], pool_of_port: Mapping[int, str]
) -> None:
    if route.pool in routes:
        raise Unroutable(f"another Service already routes pool {route.pool}: delete this one")
    if route.port in pool_of_port:
        other = pool_of_port[route.port]
        raise Unroutable(f"port {route.port} is already that of pool {other}: allocate another")
