"""The PodDisruptionBudget of a pool."""

from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata, selector
from penstock_operator.observed import PoolObject


def disruption_budget(pool: PoolObject) -> Manifest:
    """Return the PodDisruptionBudget: one pod at a time.

    `AlwaysAllow`: a pod that never became Ready does not block the drain of its node.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(pool, child_name(pool)),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(pool)},
        },
    }
