"""Seals of a pool's children: a copy needs seals for its own manifests, or the operator applies every child again."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from penstock_api import names
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.writes import with_hash
from penstock_operator.decide.planning.children import desired_manifests
from penstock_operator.decide.planning.planner import decide_pool
from penstock_operator.decide.planning.pool_draft import PassContext, draft
from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import ObservedExtras, pool_view
from penstock_operator.observed import Observed
from penstock_operator.reconcile_state import NO_SIGNALS
from tests.bench.scale.operator import IMAGE

Json = dict[str, Any]


class NotSealedSoError(AssertionError):
    """A child's seal differs from the one that this operator writes."""


def seal_of(manifest: Mapping[str, Any]) -> str:
    """Return the seal that the operator writes for a manifest."""
    seal: str = with_hash(dict(manifest))["metadata"]["annotations"][names.ANNOTATION_APPLIED]
    return seal


def manifests(objects: Iterable[Json], now: float) -> dict[tuple[str, str], Json]:
    """Return the wanted manifests of the children of a stored pool, by kind and name.

    Raises:
        NotSealedSoError: a stored child has another seal.
    """
    known = {kind.kind: kind for kind in kinds.WATCHED}
    store, by_key = ObjectStore(), {}
    for manifest in objects:
        by_key[manifest["kind"], manifest["metadata"]["name"]] = manifest
        if manifest["kind"] in known:
            meta = {**manifest["metadata"], "resourceVersion": "1"}
            store.upsert(known[manifest["kind"]], {**manifest, "metadata": meta})
    pool = next(iter(store.pools.values()))
    view = pool_view(store, pool, ObservedExtras({}, NO_SIGNALS, {}))
    observed = Observed((view,), (), policies_readable=True, lease_transitions={}, control_keys={})
    config = DecideConfig(default_runtime_image=IMAGE)
    drafted, _ = decide_pool(
        draft(view, None, PassContext(observed, config, {}, now)), None, observed, now
    )
    settings = by_key["ConfigMap", pool.name + names.CHILD_SUFFIX]
    keys = json.loads(settings["data"][names.CONTROL_KEYS_FILE])
    wanted_manifests = {
        (manifest["kind"], manifest["metadata"]["name"]): manifest
        for manifest in desired_manifests(drafted, keys)
    }
    for key, manifest in wanted_manifests.items():
        seal = by_key[key]["metadata"]["annotations"][names.ANNOTATION_APPLIED]
        if seal != seal_of(manifest):
            raise NotSealedSoError(f"{' '.join(key)} carries {seal}, not {seal_of(manifest)}")
    return wanted_manifests
