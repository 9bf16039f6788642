"""Writes of the pools of variants: created, repaired, and deleted once their variant is removed.

absent                     -> create
own, as desired            -> no write
own, different             -> its spec and labels are replaced as a whole, so that an edit by hand is undone
own, of no variant         -> delete: its pods drain, as those of any deleted pool
of another owner           -> never a write: a name conflict
"""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock_api import names
from penstock_api.types.variants import VariantSpec
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.manifests.metadata import Manifest, owner
from penstock_operator.decide.variant_pools.merge import spec_json, variant_spec
from penstock_operator.observed import PoolObject, PoolView, VariantView

KEPT_ANNOTATIONS = (names.ANNOTATION_RESTARTED_AT,)
"""Annotations of the parent that its variants' pools have too."""
OWN_ANNOTATIONS = (*KEPT_ANNOTATIONS, names.ANNOTATION_BATCH_REPLICAS)
NOT_COPIED = ("applyset.kubernetes.io/", "kustomize.toolkit.fluxcd.io/", "argocd.argoproj.io/")
"""Prefixes of labels by which tools prune objects that they did not apply."""


def variant_pools(view: PoolView) -> dict[str, VariantView]:
    """Return the pools that the parent controls, by the name of the pool."""
    return {each.pool.name: each for each in view.variants if is_own(view.pool, each.pool)}


def name_conflicts(view: PoolView) -> tuple[str, ...]:
    """Return the names of pools of variants that another owner has."""
    wanted = {
        names.variant_pool(view.pool.name, variant.name)
        for variant in view.pool.spec.variants or ()
    }
    return tuple(
        each.pool.name
        for each in view.variants
        if each.pool.name in wanted and not is_own(view.pool, each.pool)
    )


def is_own(parent: PoolObject, pool: PoolObject) -> bool:
    """Return whether the parent controls the pool; an owner in another namespace controls nothing."""
    if pool.variant_of is None or pool.namespace != parent.namespace:
        return False
    return pool.variant_of.uid == parent.uid


def pool_writes(
    view: PoolView, counts: Mapping[str, int], batch: Mapping[str, int]
) -> tuple[ChildWrite, ...]:
    """Return the writes. None is created while a name is taken.

    `counts` are the replicas of each variant by its name, and `batch` those of them that only batch work needs.
    """
    own, conflicts = variant_pools(view), name_conflicts(view)
    writes = []
    for variant in view.pool.spec.variants or ():
        live = own.pop(names.variant_pool(view.pool.name, variant.name), None)
        manifest = variant_manifest(
            view.pool, variant, counts[variant.name], batch.get(variant.name, 0)
        )
        write = _write(manifest, live)
        if write is not None and not (conflicts and write.write is Write.CREATE):
            writes.append(write)
    return (*writes, *_deletions(own.values()))


def stale_pools(view: PoolView) -> frozenset[str]:
    """Return the names of the variants whose pools report on an earlier spec than the one that this pass gives them."""
    own = variant_pools(view)
    stale = set()
    for variant in view.pool.spec.variants or ():
        live = own.get(names.variant_pool(view.pool.name, variant.name))
        if live is None:
            continue
        given = variant_spec(view.pool, variant, live.pool.spec.replicas)
        observed = live.pool.status.observed_generation == live.pool.generation
        if not observed or given != spec_json(live.pool.spec):
            stale.add(variant.name)
    return frozenset(stale)


def _write(manifest: Manifest, live: VariantView | None) -> ChildWrite | None:
    if live is None:
        return ChildWrite(Write.CREATE, names.POOL_KIND, manifest)
    pool, desired = live.pool, manifest["metadata"]
    if pool.deleting:
        return None
    annotations = {
        **{key: text for key, text in pool.annotations.items() if key not in OWN_ANNOTATIONS},
        **desired["annotations"],
    }
    if (
        spec_json(pool.spec) == manifest["spec"]
        and dict(pool.labels) == desired["labels"]
        and dict(pool.annotations) == annotations
    ):
        return None
    identity = {"uid": pool.uid, "resourceVersion": pool.resource_version}
    metadata = {**desired, "annotations": annotations, **identity}
    own = {"labels": pool.labels, "annotations": pool.annotations, **identity}
    seen = {"metadata": own, "spec": pool.generation}
    return ChildWrite(Write.REPLACE, names.POOL_KIND, {**manifest, "metadata": metadata}, seen)


def _deletions(pools: Any) -> Iterator[ChildWrite]:
    for each in pools:
        if not each.pool.deleting:
            identity = {"namespace": each.pool.namespace, "name": each.pool.name}
            metadata = {"metadata": {**identity, "uid": each.pool.uid}}
            yield ChildWrite(Write.DELETE, names.POOL_KIND, metadata)


def variant_manifest(
    parent: PoolObject, variant: VariantSpec, replicas: int, batch: int = 0
) -> Manifest:
    """Return the desired InferencePool of a variant; `batch` of its replicas are for batch work."""
    annotations = {
        key: parent.annotations[key] for key in KEPT_ANNOTATIONS if key in parent.annotations
    }
    if batch:
        annotations[names.ANNOTATION_BATCH_REPLICAS] = str(batch)
    copied = {key: value for key, value in parent.labels.items() if not key.startswith(NOT_COPIED)}
    own = {names.LABEL_VARIANT: variant.name, names.LABEL_VARIANT_OF: parent.name}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.POOL_KIND,
        "metadata": {
            "name": names.variant_pool(parent.name, variant.name),
            "namespace": parent.namespace,
            "labels": {**copied, **own},
            "annotations": annotations,
            "ownerReferences": [owner(parent)],
        },
        "spec": variant_spec(parent, variant, replicas),
    }
