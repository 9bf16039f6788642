"""`ModelCache`: the storage of a downloaded model."""

from enum import StrEnum

from pydantic import ConfigDict

from penstock_api.base import ApiModel
from penstock_api.types.fields import Name, Quantity, rule, rules


class CacheType(StrEnum):
    """Lifetime of a downloaded model."""

    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    EPHEMERAL = "Ephemeral"


_TYPE_IFF_MEMBER = [
    rule(
        f"has(self.{member}) == (self.type == '{kind}')",
        f"cache.type is %s: set {member} if and only if type is {kind}",
        "self.type",
    )
    for kind, member in (("PersistentVolumeClaim", "claimName"), ("Ephemeral", "sizeLimit"))
]


class ModelCache(ApiModel):
    """Cache of a downloaded model: a union discriminated by `type`."""

    model_config = ConfigDict(json_schema_extra=rules(*_TYPE_IFF_MEMBER))
    type: CacheType
    """PersistentVolumeClaim is shared by all pods that mount it and outlives them; Ephemeral belongs to one pod."""
    claim_name: Name | None = None
    """For type PersistentVolumeClaim: a claim in the pool's namespace, mounted read-write."""
    size_limit: Quantity | None = None
    """For type Ephemeral: size limit on the node's disk."""
