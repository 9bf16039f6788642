"""CRD skew: the difference between the served CRDs and those that this operator was built with, from OpenAPI.

The operator has no permission to read CRDs, but every client can read the OpenAPI document. An older CRD lacks fields: the API
server would reject a status that contains them, so they are left out. A newer CRD has fields that this operator cannot
parse: a pool that uses one reports `SpecNotUnderstood`.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from penstock_api import names
from penstock_api.codegen.structural import structural
from penstock_api.types.policy import InferencePolicy
from penstock_api.types.pool import InferencePool
from penstock_operator.errors import ClusterError
from penstock_operator.kube.client import ApiClient
from penstock_operator.schema_skew import SchemaSkew

log = logging.getLogger(__name__)

PATH = f"/openapi/v3/apis/{names.API_VERSION}"
PARTS = ("spec", "status")
KINDS = {names.POOL_KIND: InferencePool, names.POLICY_KIND: InferencePolicy}

Json = Mapping[str, Any]


def field_paths(schema: Json) -> frozenset[str]:
    """Return the path of every property of spec and status in a structural schema, through lists too."""
    properties = schema.get("properties", {})
    return frozenset(
        path
        for part in PARTS
        if part in properties
        for path in (part, *_below(part, properties[part]))
    )


def _below(path: str, schema: Json) -> Iterator[str]:
    inner = schema.get("items", schema)
    for name, child in (inner.get("properties") or {}).items():
        yield f"{path}.{name}"
        yield from _below(f"{path}.{name}", child)


@cache
def known_paths(kind: str) -> frozenset[str]:
    """Return the paths of a kind that this operator was built with."""
    return field_paths(structural(KINDS[kind]))


def topmost(paths: frozenset[str]) -> frozenset[str]:
    """Return the paths whose parent is not among them."""
    return frozenset(path for path in paths if path.rpartition(".")[0] not in paths)


def skew_of(document: Json) -> Mapping[str, SchemaSkew]:
    """Return the skew of each served kind in the OpenAPI document of the group."""
    skews = {}
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for gvk in schema.get("x-kubernetes-group-version-kind") or ():
            if gvk.get("group") == names.GROUP and gvk.get("kind") in KINDS:
                kind, served = gvk["kind"], field_paths(schema)
                known = known_paths(kind)
                skews[kind] = SchemaSkew(topmost(known - served), topmost(served - known))
    return skews


@dataclass(slots=True)
class ServedSchemas:
    """Skew of each kind at the last refresh."""

    cluster: ApiClient
    skews: Mapping[str, SchemaSkew] = field(default_factory=dict)

    def of(self, kind: str) -> SchemaSkew:
        """Return the skew of a kind."""
        return self.skews.get(kind, SchemaSkew())

    async def refresh(self) -> bool:
        """Read the schemas again; return whether a skew changed. After a failure the last skews stay."""
        try:
            skews = skew_of(await self.cluster.get(PATH))
        except ClusterError as error:
            log.warning("failed to read the OpenAPI schemas of the CRDs: %s", error)
            return False
        if skews == self.skews:
            return False
        for kind, skew in skews.items():
            if skew != self.of(kind):
                log.warning(
                    "the CRD of %s %s", kind, skew.sentence() or "matches this operator again"
                )
        self.skews = skews
        return True
