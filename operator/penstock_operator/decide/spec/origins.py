"""The origin of each live field: which layer of the effective spec determined the value in force. Pure."""

from collections.abc import Iterable, Mapping

from penstock_api.types.status import BoundedField, EffectiveField
from penstock_operator.decide.spec.live_fields import OBJECTIVE, Fields, Value
from penstock_operator.decide.spec.objectives import Target
from penstock_operator.decide.spec.policy_defaults import Defaults
from penstock_operator.decide.spec.ranges import Layers
from penstock_operator.decide.spec.schedules import Opening

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


def schedule_origin(opening: Opening) -> str:
    """Return the origin of a floor that a schedule raised."""
    return f"Schedule {opening.policy}/{opening.schedule}"


def _text(path: str, value: Value) -> str:
    return str(Target.read(value)) if path.startswith(OBJECTIVE) else str(value)
