"""Routing: how the requests of a pool's clients reach its pods."""

from enum import StrEnum

from penstock_api.base import ApiModel


class RoutingMode(StrEnum):
    """Component that distributes the requests."""

    SERVICE = "Service"
    GATEWAY = "Gateway"


class RoutingSpec(ApiModel):
    """Distribution of requests over the pods."""

    mode: RoutingMode | None = None
    """Service spreads connections over the ready pods. Gateway spreads requests and retries those whose pod dies, through Envoy pods of the pool's namespace. Defaults to Service."""
