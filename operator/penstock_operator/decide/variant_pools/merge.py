"""`variant_spec`: the spec of a variant's pool, from the parent's spec and what the variant sets."""

from typing import Any, TypeVar

from penstock_api.base import ApiModel
from penstock_api.types.pod_template.template import PodTemplate
from penstock_api.types.pool import PoolSpec
from penstock_api.types.runtime import RuntimeSpec
from penstock_api.types.scaling import Scaling, ScalingAlgorithm, ScalingMode
from penstock_api.types.variants import VariantSpec
from penstock_operator.observed import PoolObject

Model = TypeVar("Model", bound=ApiModel)


def variant_spec(pool: PoolObject, variant: VariantSpec, replicas: int) -> PoolSpec:
    """Return the spec of the pool of a variant with a count.

    Its law only recommends, since the parent decides on counts; clients use the parent's Service and model name.
    """
    spec = pool.spec
    model = spec.model.model_copy(update={"name": spec.model.name or pool.name})
    own: dict[str, Any] = {
        "replicas": replicas,
        "model": model,
        "accelerator": overlaid(spec.accelerator, variant.accelerator),
        "parallelism": overlaid(spec.parallelism, variant.parallelism),
        "generation": overlaid(spec.generation, variant.generation),
        "scaling": _scaling(spec.scaling, variant),
        "service": None,
        "routing": None,
        "batch_work": None,
        "variants": None,
    }
    if variant.runtime is not None:
        own["runtime"] = overlaid(spec.runtime or RuntimeSpec(), variant.runtime)
    if variant.template is not None:
        own["template"] = overlaid(spec.template or PodTemplate(), variant.template)
    return spec.model_copy(update=own)


def _scaling(given: Scaling | None, variant: VariantSpec) -> Scaling:
    """Return the scaling of a law that only recommends, between one replica and the variant's maximum."""
    scaling = given or Scaling()
    most = variant.max_replicas if variant.max_replicas is not None else scaling.max_replicas
    update = {
        "mode": ScalingMode.RECOMMEND,
        "algorithm": ScalingAlgorithm.CAPACITY_AT_OBJECTIVE,
        "min_replicas": 1,
        "max_replicas": None if most is None else max(most, 1),
        "scale_to_zero": None,
    }
    return scaling.model_copy(update=update)


def overlaid(base: Any, change: Any) -> Any:
    """Return `base` with the fields that `change` sets.

    Objects and maps are merged, and lists whose items have names by name; other values are replaced.
    """
    if change is None or base is None:
        return base if change is None else change
    if isinstance(base, ApiModel) and isinstance(change, ApiModel):
        return _merged(base, change)
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **change}
    if isinstance(change, tuple) and all(hasattr(item, "name") for item in (*base, *change)):
        return tuple({item.name: item for item in (*base, *change)}.values())
    return change


def _merged(base: Model, change: ApiModel) -> Model:
    """Return a copy of `base`; a part that only `change` has becomes one of the type of `base`."""
    fields = [name for name in type(change).model_fields if getattr(change, name) is not None]
    update = {name: overlaid(getattr(base, name), getattr(change, name)) for name in fields}
    merged = base.model_copy(update=update)
    return type(base).model_validate(merged.model_dump(mode="json", exclude_none=True))
