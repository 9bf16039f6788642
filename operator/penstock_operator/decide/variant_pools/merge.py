"""`variant_spec`: the spec of a variant's pool, from the parent's spec and what the variant sets.

The API server validates the merged spec: one that it rejects is reported on the parent, and the other variants go on.
"""

from typing import Any

from penstock_api.base import ApiModel
from penstock_api.types.scaling import Scaling, ScalingAlgorithm, ScalingMode
from penstock_api.types.variants import VariantSpec
from penstock_operator.observed import PoolObject

MERGED = ("accelerator", "parallelism", "runtime", "generation", "template")
"""Parts of the spec that a variant may set."""
OF_PARENT = ("service", "routing", "batchWork", "variants")


def variant_spec(pool: PoolObject, variant: VariantSpec, replicas: int) -> dict[str, Any]:
    """Return the spec of the pool of a variant with a count, as the API server stores it.

    Its law only recommends, since the parent decides on counts; clients use the parent's Service and model name.
    """
    spec, own = spec_json(pool.spec), spec_json(variant)
    merged = overlaid(spec, {part: own[part] for part in MERGED if part in own})
    return {
        **{part: value for part, value in merged.items() if part not in OF_PARENT},
        "replicas": replicas,
        "model": {**spec["model"], "name": pool.spec.model.name or pool.name},
        "scaling": spec_json(_scaling(pool.spec.scaling, variant)),
    }


def spec_json(spec: ApiModel) -> dict[str, Any]:
    """Return a spec, or a part of one, as the API server stores it."""
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)


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
    """Return the JSON value `base` with what `change` sets.

    Objects are merged, and lists whose items have names by name; other values are replaced.
    """
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: overlaid(base.get(key), value) for key, value in change.items()}}
    if isinstance(base, list) and isinstance(change, list):
        items = [*base, *change]
        if all(isinstance(item, dict) and "name" in item for item in items):
            return list({item["name"]: item for item in items}.values())
    return change
