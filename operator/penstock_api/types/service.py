"""The Service of a pool, which clients use, and `RoutingSpec`: how their requests reach the pods."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import ATOMIC_LIST, LABEL_KEY, AnnotationMap, Cidr, rule, rules

_TYPE = "(has({0}.type) ? {0}.type : 'ClusterIP')"
_CLASS = "(has({0}.loadBalancerClass) ? {0}.loadBalancerClass : 'unset')"


class ServiceType(StrEnum):
    """How a Service is reached."""

    CLUSTER_IP = "ClusterIP"
    HEADLESS = "Headless"
    """ClusterIP without an address: DNS lists the Ready pods, for clients and gateways that balance by themselves."""
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class TrafficPolicy(StrEnum):
    """As core/v1."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


def _only_for(member: str, *types: ServiceType) -> dict[str, str]:
    names = [kind.value for kind in types]
    return rule(
        f"!has(self.{member}) || {_TYPE.format('self')} in {names}",
        f"service.{member} is for type {' or '.join(names)}, but type is %s: remove it, or set that type",
        _TYPE.format("self"),
    )


class ServiceSpec(ApiModel):
    """The Service of a pool: port 8000 of the Ready pods, under the name of the pool."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            _only_for("loadBalancerClass", ServiceType.LOAD_BALANCER),
            _only_for("loadBalancerSourceRanges", ServiceType.LOAD_BALANCER),
            _only_for("externalTrafficPolicy", ServiceType.LOAD_BALANCER, ServiceType.NODE_PORT),
            _only_for("nodePort", ServiceType.LOAD_BALANCER, ServiceType.NODE_PORT),
            rule(
                f"{_TYPE.format('self')} != 'LoadBalancer' || {_TYPE.format('oldSelf')} != 'LoadBalancer'"
                f" || {_CLASS.format('self')} == {_CLASS.format('oldSelf')}",
                "service.loadBalancerClass is immutable for a LoadBalancer: was %s, got %s; set another type first",
                _CLASS.format("oldSelf"),
                _CLASS.format("self"),
                at=".loadBalancerClass",
            ),
        )
    )
    type: ServiceType | None = None
    """How the Service is reached; defaults to ClusterIP. A change to or from Headless deletes and creates the Service."""
    annotations: AnnotationMap | None = None
    """Annotations of the Service, such as those that a cloud's load balancer reads."""
    load_balancer_class: (
        Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL_KEY)] | None
    ) = None
    """For type LoadBalancer: its implementation; defaults to the cluster's. Immutable while the type is LoadBalancer."""
    load_balancer_source_ranges: (
        Annotated[tuple[Cidr, ...], Field(max_length=64, json_schema_extra=ATOMIC_LIST)] | None
    ) = None
    """For type LoadBalancer: networks that it admits; defaults to all."""
    external_traffic_policy: TrafficPolicy | None = None
    """For types LoadBalancer and NodePort: Local keeps the client's address and uses pods of the receiving node only; defaults to Cluster."""
    node_port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """For types LoadBalancer and NodePort: port of the nodes; defaults to a free one."""


class RoutingMode(StrEnum):
    """Component that distributes the requests."""

    SERVICE = "Service"
    GATEWAY = "Gateway"


class RoutingSpec(ApiModel):
    """Distribution of requests over the pods."""

    mode: RoutingMode | None = None
    """Service spreads connections over the ready pods. Gateway spreads requests and retries those whose pod dies, through Envoy pods of the pool's namespace. Defaults to Service."""
