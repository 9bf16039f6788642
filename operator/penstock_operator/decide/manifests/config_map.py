"""What running pods re-read: the live limits and the keys that their controls trust."""

import json
from collections.abc import Mapping

from penstock_api import names
from penstock_api.limits import LimitsUpdate
from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata
from penstock_operator.decide.spec.live_fields import Fields
from penstock_operator.observed import PoolObject


def settings(
    pool: PoolObject,
    limits: LimitsUpdate,
    control_keys: Mapping[str, str],
    policy_defaults: Fields,
) -> Manifest:
    """Return the ConfigMap that pods mount: the slow second path of the limits, same generation.

    The policy defaults in force are remembered on it for the pass that meets a tie (`decide/spec/defaults.py`).
    """
    remembered = {names.ANNOTATION_POLICY_DEFAULTS: _json(policy_defaults)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(pool, child_name(pool), remembered),
        "data": {
            names.LIMITS_FILE: _json(limits.model_dump(mode="json", by_alias=True)),
            names.CONTROL_KEYS_FILE: _json(control_keys),
        },
    }


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), sort_keys=True)
