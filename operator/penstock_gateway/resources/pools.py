"""`Configuration`: every resource of a snapshot, by pool, so that a resource that Envoy rejects concerns one pool."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from penstock_gateway.config import GatewaySettings
from penstock_gateway.resources.cluster import cluster, endpoints
from penstock_gateway.resources.listener import listener, readiness_listener
from penstock_gateway.resources.tls import secret
from penstock_gateway.snapshot import Route, Snapshot

READINESS: Final = "penstock/readiness"
"""Name of the readiness listener, which no pool can have."""


class Kind(StrEnum):
    """Kinds of resources, each with its type URL, in the order in which a pool's are sent."""

    CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
    SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"  # noqa: S105  a type's URL


@dataclass(frozen=True, slots=True)
class EnvoyResource:
    """A resource; equal content has an equal version, in every process."""

    kind: Kind
    name: str
    body: Mapping[str, Any] = field(repr=False)
    version: str = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(self.body, sort_keys=True)
        object.__setattr__(self, "version", hashlib.sha256(text.encode()).hexdigest()[:16])


@dataclass(frozen=True, slots=True)
class PoolResources:
    """The resources of a pool."""

    route: Route
    cluster: EnvoyResource
    endpoints: EnvoyResource
    listener: EnvoyResource
    secret: EnvoyResource | None
    """The certificate; None: plain HTTP."""


@dataclass(frozen=True, slots=True)
class KeptResources:
    """What is sent of a pool whose cluster stays as Envoy has it, with its certificate and CAs: the pods."""

    route: Route
    endpoints: EnvoyResource


Resources = TypeVar("Resources", PoolResources, KeptResources)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The resources of every pool, and the readiness listener."""

    pools: Mapping[str, PoolResources]
    readiness: EnvoyResource
    draining: Mapping[str, KeptResources] = field(default_factory=dict)
    """Pools whose listener is removed, and only the endpoints are sent; its open connections need the cluster until they end."""
    kept: Mapping[str, KeptResources] = field(default_factory=dict)
    """Pools of which nothing is removed, and only the endpoints are sent."""

    def find(self, kind: Kind, name: str) -> EnvoyResource | None:
        """Return the resource of a kind and a name."""
        if name == READINESS:
            return self.readiness if kind is Kind.LISTENER else None
        if only_endpoints := self.kept.get(name) or self.draining.get(name):
            return only_endpoints.endpoints if kind is Kind.ENDPOINTS else None
        pool = self.pools.get(name)
        if pool is None:
            return None
        return {
            Kind.CLUSTER: pool.cluster,
            Kind.ENDPOINTS: pool.endpoints,
            Kind.LISTENER: pool.listener,
            Kind.SECRET: pool.secret,
        }[kind]

    @property
    def delivered(self) -> Mapping[str, PoolResources | KeptResources]:
        """Every pool with a cluster, by name: those that drain, those that are kept, and those with a listener."""
        return {**self.draining, **self.kept, **self.pools}


def configuration(
    snapshot: Snapshot, settings: GatewaySettings, before: Configuration | None = None
) -> Configuration:
    """Return the configuration of a snapshot; what did not change is taken from `before`, made with equal settings."""
    body = readiness_listener(READINESS, settings)
    readiness = EnvoyResource(Kind.LISTENER, READINESS, body)
    former = before or Configuration({}, readiness)
    return Configuration(
        _by_pool(former.pools, snapshot.routes, _pool_resources, settings),
        readiness,
        _by_pool(former.draining, snapshot.draining, _kept_resources, settings),
        _by_pool(former.kept, snapshot.kept, _kept_resources, settings),
    )


def _by_pool(
    former: Mapping[str, Resources],
    routes: Mapping[str, Route],
    make: Callable[[Route, GatewaySettings], Resources],
    settings: GatewaySettings,
) -> dict[str, Resources]:
    """Return the resources of each route, the `former` ones where it is the same."""
    return {
        name: former[name]
        if name in former and former[name].route == route
        else make(route, settings)
        for name, route in routes.items()
    }


def _kept_resources(route: Route, settings: GatewaySettings) -> KeptResources:
    return KeptResources(route, _endpoints(route, settings))


def _pool_resources(route: Route, settings: GatewaySettings) -> PoolResources:
    pool = route.pool
    return PoolResources(
        route,
        EnvoyResource(Kind.CLUSTER, pool, cluster(route, settings)),
        _endpoints(route, settings),
        EnvoyResource(Kind.LISTENER, pool, listener(route, settings)),
        EnvoyResource(Kind.SECRET, pool, secret(pool, route.certificate))
        if route.certificate
        else None,
    )


def _endpoints(route: Route, settings: GatewaySettings) -> EnvoyResource:
    return EnvoyResource(Kind.ENDPOINTS, route.pool, endpoints(route, settings))
