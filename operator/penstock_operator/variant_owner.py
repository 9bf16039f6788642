"""`VariantOwner`: the pool with variants that controls the pool of one of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock_api import names


class VariantOwner(NamedTuple):
    """A pool with variants."""

    uid: str
    name: str


def variant_owner(meta: Mapping[str, Any]) -> VariantOwner | None:
    """Return the InferencePool that controls the object with this `metadata`, or None."""
    for owner in meta.get("ownerReferences") or ():
        group = str(owner.get("apiVersion", "")).partition("/")[0]
        if owner.get("controller") and (group, owner["kind"]) == (names.GROUP, names.POOL_KIND):
            return VariantOwner(str(owner["uid"]), str(owner["name"]))
    return None
