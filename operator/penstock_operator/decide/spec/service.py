"""The Service settings in force: those of the pool within the bounds of its policies."""

from collections.abc import Sequence

from penstock_api.types.policy import ServiceBounds
from penstock_api.types.service import ServiceSpec, ServiceType
from penstock_api.types.status import BoundedField
from penstock_operator.observed import PolicyObject

ALWAYS_ALLOWED = (ServiceType.CLUSTER_IP, ServiceType.HEADLESS)
"""Types that expose nothing outside of the cluster."""
_TEXT_LENGTH = 512


def granted_service(
    asked: ServiceSpec | None, policies: Sequence[PolicyObject]
) -> tuple[ServiceSpec, tuple[BoundedField, ...]]:
    """Return the settings in force, and each reduced field with the first policy that reduces it.

    A type that is not allowed becomes ClusterIP; annotations that are not allowed are left out.
    """
    granted = asked or ServiceSpec()
    bounded: dict[str, BoundedField] = {}
    for policy in policies:
        bounds = (policy.spec.bounds and policy.spec.bounds.service) or ServiceBounds()
        for reduced, field in (_type(granted, bounds), _annotations(granted, bounds)):
            if field is not None:
                granted = granted.model_copy(update=reduced)
                named = field.model_copy(update={"policy": policy.name})
                bounded.setdefault(field.field, named)
    return granted, tuple(bounded.values())


_Reduction = tuple[dict[str, object], BoundedField | None]
_KEPT: _Reduction = ({}, None)


def _type(spec: ServiceSpec, bounds: ServiceBounds) -> _Reduction:
    kind, allowed = spec.type or ServiceType.CLUSTER_IP, bounds.allowed_types
    if allowed is None or kind in (*allowed, *ALWAYS_ALLOWED):
        return _KEPT
    external = ("load_balancer_class", "load_balancer_source_ranges")
    unset = dict.fromkeys((*external, "external_traffic_policy", "node_port"))
    granted = ServiceType.CLUSTER_IP
    field = BoundedField(field="spec.service.type", asked=kind, granted=granted, policy="")
    return {"type": granted, **unset}, field


def _annotations(spec: ServiceSpec, bounds: ServiceBounds) -> _Reduction:
    given, allowed = spec.annotations or {}, bounds.allowed_annotations
    if allowed is None:
        return _KEPT
    kept = {key: value for key, value in given.items() if key.startswith(tuple(allowed))}
    if len(kept) == len(given):
        return _KEPT
    asked, left = (", ".join(sorted(keys))[:_TEXT_LENGTH] for keys in (given, kept))
    field = BoundedField(
        field="spec.service.annotations", asked=asked, granted=left or "none", policy=""
    )
    return {"annotations": kept}, field
