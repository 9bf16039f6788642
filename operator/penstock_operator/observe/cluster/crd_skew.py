"""Are the CRDs that the API server serves the ones that this operator was built with? Asked of its OpenAPI.

Reading CRDs is a right over the cluster that the operator does not have; what they say is published to everybody. An older
one lacks fields: a status that names them would be refused whole, so they are left out. A newer one has fields that this
operator cannot read: a pool that uses one says so itself (`SpecNotUnderstood`).
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
from penstock_operator.observed import SchemaSkew

log = logging.getLogger(__name__)

PATH = f"/openapi/v3/apis/{names.API_VERSION}"
PARTS = ("spec", "status")
KINDS = {names.POOL_KIND: InferencePool, names.POLICY_KIND: InferencePolicy}

Json = Mapping[str, Any]


def field_paths(schema: Json) -> frozenset[str]:
    """Return every path below spec and status that a structural schema has a property for; lists are passed through."""
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
    return frozenset(one for one in paths if one.rpartition(".")[0] not in paths)


def skew_of(document: Json) -> Mapping[str, SchemaSkew]:
    """Return how each kind differs in the OpenAPI document of the group; a kind that is not served is left out."""
    found = {}
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for one in schema.get("x-kubernetes-group-version-kind") or ():
            if one.get("group") == names.GROUP and one.get("kind") in KINDS:
                kind, served = one["kind"], field_paths(schema)
                known = known_paths(kind)
                found[kind] = SchemaSkew(topmost(known - served), topmost(served - known))
    return found


@dataclass(slots=True)
class ServedSchemas:
    """What was last found out, by kind."""

    cluster: ApiClient
    skews: Mapping[str, SchemaSkew] = field(default_factory=dict)

    def of(self, kind: str) -> SchemaSkew:
        """Return how the served schema of a kind differs from the known one."""
        return self.skews.get(kind, SchemaSkew())

    async def refresh(self) -> bool:
        """Ask again; return whether anything is different from before. What could not be asked stays as it was."""
        try:
            found = skew_of(await self.cluster.get(PATH))
        except ClusterError as error:
            log.warning("the schemas of the CRDs could not be read: %s", error)
            return False
        if found == self.skews:
            return False
        for kind, one in found.items():
            if one != self.of(kind):
                log.warning(
                    "the CRD of %s %s", kind, one.sentence() or "is this operator's own again"
                )
        self.skews = found
        return True
