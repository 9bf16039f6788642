"""The ConfigMap that running pods re-read: the live limits and the trusted control keys."""

import json
from collections.abc import Mapping
from typing import Any

from penstock_api import names
from penstock_api.pod_contract import LimitsUpdate
from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata
from penstock_operator.decide.spec.live_fields import Fields, plausible
from penstock_operator.observed import PoolObject


def settings(
    pool: PoolObject,
    limits: LimitsUpdate,
    control_keys: Mapping[str, str],
    policy_defaults: Fields,
) -> Manifest:
    """Return the ConfigMap that pods mount: a second, slower path for the same limits and generation.

    An annotation records the policy defaults in force, for later ties (`decide/spec/policy_defaults.py`).
    """
    recorded = {names.ANNOTATION_POLICY_DEFAULTS: _json(policy_defaults)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(pool, child_name(pool), recorded),
        "data": {
            names.LIMITS_FILE: _json(limits.model_dump(mode="json", by_alias=True)),
            names.CONTROL_KEYS_FILE: _json(control_keys),
        },
    }


def recorded_defaults(config_map: Mapping[str, Any]) -> Fields:
    """Return the policy defaults that `settings` recorded, without values that no policy could set: the pool's author can edit them."""
    annotations = config_map.get("metadata", {}).get("annotations") or {}
    try:
        recorded = json.loads(annotations.get(names.ANNOTATION_POLICY_DEFAULTS, "{}"))
    except ValueError:
        return {}  # edited by hand: the next write repairs it
    if not isinstance(recorded, dict):
        return {}
    return {k: v for k, v in recorded.items() if isinstance(k, str) and plausible(k, v)}


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), sort_keys=True)
