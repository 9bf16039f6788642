"""What the operator's seals on a pool's children were made of: a copy needs seals of its own, or all of it is applied anew."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from penstock_api import names
from penstock_operator.decide.children import desired_manifests
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.writes import with_hash
from penstock_operator.decide.planner import decide_pool
from penstock_operator.decide.pool_draft import PassContext, draft
from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import ObservedExtras, pool_view
from penstock_operator.observed import Observed
from penstock_operator.reconcile_state import NO_SIGNALS
from tests.bench.scale.operator import IMAGE

Json = dict[str, Any]


class NotSealedSoError(AssertionError):
    """A child does not carry the seal that this operator would put on it."""


def seal_of(manifest: Mapping[str, Any]) -> str:
    """Return the seal that the operator puts on a child."""
    seal: str = with_hash(dict(manifest))["metadata"]["annotations"][names.ANNOTATION_APPLIED]
    return seal


def manifests(objects: Iterable[Json], now: float) -> dict[tuple[str, str], Json]:
    """Return what the operator wants of the children among a pool's stored objects, by kind and name.

    Raises:
        NotSealedSoError: one of them was made of something else.
    """
    known = {one.kind: one for one in kinds.WATCHED}
    store, held = ObjectStore(), {}
    for one in objects:
        held[one["kind"], one["metadata"]["name"]] = one
        if one["kind"] in known:
            meta = {**one["metadata"], "resourceVersion": "1"}
            store.upsert(known[one["kind"]], {**one, "metadata": meta})
    pool = next(iter(store.pools.values()))
    view = pool_view(store, pool, ObservedExtras({}, NO_SIGNALS, {}))
    observed = Observed((view,), (), policies_readable=True, lease_transitions={}, control_keys={})
    config = DecideConfig(default_runtime_image=IMAGE)
    found, _ = decide_pool(
        draft(view, None, PassContext(observed, config, {}, now)), None, observed, now
    )
    settings = held["ConfigMap", pool.name + names.CHILD_SUFFIX]
    keys = json.loads(settings["data"][names.CONTROL_KEYS_FILE])
    made = {(one["kind"], one["metadata"]["name"]): one for one in desired_manifests(found, keys)}
    for key, one in made.items():
        seal = held[key]["metadata"]["annotations"][names.ANNOTATION_APPLIED]
        if seal != seal_of(one):
            raise NotSealedSoError(f"{' '.join(key)} carries {seal}, not {seal_of(one)}")
    return made
