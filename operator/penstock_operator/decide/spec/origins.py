"""The origin of each live field: which layer of the effective spec determined the value in force. Pure."""

from collections.abc import Iterable, Mapping

from penstock_api.types.batching import BatchingMode
from penstock_api.types.pool import PoolSpec
from penstock_api.types.scaling import ScalingMode
from penstock_api.types.service import RoutingMode, ServiceSpec, ServiceType
from penstock_api.types.status import BoundedField, EffectiveField
from penstock_operator.decide.spec.live_fields import (
    MIN_REPLICAS,
    MODES,
    OBJECTIVE,
    Fields,
    Value,
)
from penstock_operator.decide.spec.objectives import Target
from penstock_operator.decide.spec.policy_defaults import Defaults
from penstock_operator.decide.spec.ranges import Layers
from penstock_operator.decide.spec.schedules import Opening

SCALING_MODE, BATCHING_MODE = MODES
SERVICE_TYPE, ROUTING_MODE = "service.type", "routing.mode"
SPEC, BUILT_IN, ADJUSTED, KEPT, ROLLBACK = "Spec", "BuiltIn", "Adjusted", "Kept", "Rollback"


def layer_origins(
    layers: Layers, defaults: Defaults, values: Fields, bounded: Iterable[BoundedField]
) -> dict[str, str]:
    """Return the origin of each field of `values`, which are after reconciliation and before bounds."""
    asked, bounds = layers.values(), {item.field: item.policy for item in bounded}

    def origin(path: str) -> str:
        if policy := bounds.get(f"spec.{path}"):
            return f"Bound {policy}"
        if values[path] != asked.get(path, values[path]):
            return ADJUSTED
        if path in layers.spec or path not in asked:
            return SPEC
        if path in layers.defaults:
            policy = defaults.sources.get(path)
            return f"PolicyDefault {policy}" if policy else KEPT
        return BUILT_IN

    return {path: origin(path) for path in values}


def effective_fields(
    values: Mapping[str, Value], origins: Mapping[str, str]
) -> tuple[EffectiveField, ...]:
    """Return the fields for the status, by path."""
    return tuple(
        EffectiveField(field=path, value=_text(path, values[path]), origin=origins[path])
        for path in sorted(values)
    )


def own_fields(
    scaling: ScalingMode, batching: BatchingMode, service: ServiceSpec, routing: RoutingMode
) -> dict[str, Value]:
    """Return the live fields that no policy defaults."""
    kind = service.type or ServiceType.CLUSTER_IP
    return {
        ROUTING_MODE: routing.value,
        SCALING_MODE: scaling.value,
        BATCHING_MODE: batching.value,
        SERVICE_TYPE: kind.value,
    }


def own_origins(spec: PoolSpec, bounded: Iterable[BoundedField]) -> dict[str, str]:
    """Return the origins of `own_fields`; `bounded` are the fields of the Service that policies reduced."""
    policy = {item.field: item.policy for item in bounded}.get(f"spec.{SERVICE_TYPE}")
    given = {
        ROUTING_MODE: spec.routing and spec.routing.mode,
        SCALING_MODE: spec.scaling and spec.scaling.mode,
        BATCHING_MODE: spec.batching and spec.batching.mode,
        SERVICE_TYPE: spec.service and spec.service.type,
    }
    origins = {path: SPEC if value else BUILT_IN for path, value in given.items()}
    return {**origins, SERVICE_TYPE: f"Bound {policy}"} if policy else origins


def with_schedule(
    origins: Mapping[str, str], before: Fields, after: Fields, opening: Opening | None
) -> Mapping[str, str]:
    """Return the origins after an open schedule raised the minimum."""
    if opening is None or before[MIN_REPLICAS] == after[MIN_REPLICAS]:
        return origins
    return {**origins, MIN_REPLICAS: f"Schedule {opening.policy}/{opening.schedule}"}


def _text(path: str, value: Value) -> str:
    return str(Target.read(value)) if path.startswith(OBJECTIVE) else str(value)
