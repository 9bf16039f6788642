"""The Service of a pool's clients, which selects the pods or the namespace's gateway."""

from collections.abc import Mapping
from typing import Any

from penstock_api import names
from penstock_api.body_limits import BodyLimits
from penstock_api.hold import HoldLimits
from penstock_api.types.fields import byte_count
from penstock_api.types.service import ServiceSpec, ServiceType
from penstock_operator.decide.manifests.gateway import selector as gateway_selector
from penstock_operator.decide.manifests.metadata import (
    Manifest,
    metadata,
    service_name,
    serving_selector,
    variants_selector,
)
from penstock_operator.decide.route import DIRECT, PoolRoute, RouteStep
from penstock_operator.observed import ChildObject, PoolObject, PoolView


def service(
    pool: PoolObject,
    given: ServiceSpec,
    route: PoolRoute = DIRECT,
    hold: HoldLimits | None = None,
    weights: str = "",
) -> Manifest:
    """Return the Service with the client port only, so that exposing a pool never exposes its control API.

    `weights` are those of variants at the gateway, as an annotation has them.
    """
    routed = route.step is RouteStep.ROUTED
    port: dict[str, Any] = {
        "name": names.CLIENT_PORT_NAME,
        "port": names.CLIENT_PORT,
        "targetPort": route.port if routed else names.CLIENT_PORT_NAME,
        "protocol": "TCP",
        "appProtocol": "http" if pool.spec.tls is None else "https",
    }
    if given.node_port is not None:
        port["nodePort"] = given.node_port
    annotations = {**(given.annotations or {}), **route.annotations}
    if hold is not None and route.port is not None:
        annotations[names.ANNOTATION_GATEWAY_HOLD] = hold.as_annotation()
    if weights and route.port is not None:
        annotations[names.ANNOTATION_GATEWAY_WEIGHTS] = weights
    body = _body_limits(pool).as_annotation()
    if body and route.port is not None:
        annotations[names.ANNOTATION_GATEWAY_BODY] = body
    pods = variants_selector(pool.uid) if pool.spec.variants else serving_selector(pool)
    selected = gateway_selector() if routed else pods
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(pool, service_name(pool), annotations),
        "spec": {**_type(given), "selector": selected, "ports": [port]},
    }


def own_service(view: PoolView) -> ChildObject | None:
    """Return the Service that the pool controls, if it exists."""
    live = view.children.get(("Service", service_name(view.pool)))
    return live if live is not None and live.controller_uid == view.pool.uid else None


def _body_limits(pool: PoolObject) -> BodyLimits:
    """Return the pods' limits on bodies, which the gateway has to share: it reads a body whole before a pod sees it."""
    http = pool.spec.runtime.http if pool.spec.runtime else None
    if http is None:
        return BodyLimits()
    size = None if http.max_body_size is None else byte_count(http.max_body_size)
    return BodyLimits(size, http.body_timeout_seconds)


def _type(given: ServiceSpec) -> dict[str, Any]:
    """Return the type, and the fields of core/v1 that depend on it."""
    if given.type is ServiceType.HEADLESS:
        return {"type": ServiceType.CLUSTER_IP.value, "clusterIP": "None"}
    kind = (given.type or ServiceType.CLUSTER_IP).value
    fields = {"load_balancer_class", "load_balancer_source_ranges", "external_traffic_policy"}
    more = given.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
    return {"type": kind, **more}


def is_headless(manifest: Mapping[str, Any]) -> bool:
    """Return whether a Service has no address of its own, which the API server lets no update change."""
    return bool(manifest.get("spec", {}).get("clusterIP") == "None")
