"""`ModelCache`: the storage of a downloaded model."""

from enum import StrEnum

from pydantic import ConfigDict

from penstock_api.base import ApiModel
from penstock_api.types.fields import Name, Quantity, rule, rules


class CacheType(StrEnum):
    """Lifetime of a downloaded model."""

    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    EPHEMERAL = "Ephemeral"


_MEMBERS_OF_TYPE = [
    rule(
        "has(self.claimName) == (self.type == 'PersistentVolumeClaim')",
        "cache.type is %s: set claimName if and only if type is PersistentVolumeClaim",
        "self.type",
    ),
    rule(
        "!has(self.sizeLimit) || self.type == 'Ephemeral'",
        "cache.sizeLimit %s is for type Ephemeral, but cache.type is %s: remove sizeLimit",
        "self.sizeLimit",
        "self.type",
    ),
]


class ModelCache(ApiModel):
    """Cache of a downloaded model: a union discriminated by `type`."""

    model_config = ConfigDict(json_schema_extra=rules(*_MEMBERS_OF_TYPE))
    type: CacheType
    """PersistentVolumeClaim is shared by all pods that mount it and outlives them; Ephemeral belongs to one pod."""
    claim_name: Name | None = None
    """For type PersistentVolumeClaim: a claim in the pool's namespace, mounted read-write."""
    size_limit: Quantity | None = None
    """For type Ephemeral: size limit on the node's disk; if unset, only the node limits it."""
