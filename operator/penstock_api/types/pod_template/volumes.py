"""Volumes and mounts that a pool can add to its pods; hostPath is not supported."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import ATOMIC_MAP, Label, Name, Quantity, rule, rules

RESERVED_MOUNTS = ("/etc/penstock", "/etc/penstock-keys", "/etc/penstock-tls", "/models")
_RESERVED = " || ".join(
    f"self.mountPath == '{path}' || self.mountPath.startsWith('{path}/')"
    for path in RESERVED_MOUNTS
)


class LocalObjectReference(ApiModel):
    """Reference by name to an object in the pool's namespace, or for a policy in the operator's namespace."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    name: Name
    """Name of the object, in the pool's namespace; for a policy in the operator's."""


class VolumeMount(ApiModel):
    """Mount of a volume of `template.volumes` in the runtime container, as core/v1."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!({_RESERVED})",
                f"mountPath %s is reserved: choose one outside {', '.join(RESERVED_MOUNTS)}",
                "self.mountPath",
            ),
            rule(
                "!self.mountPath.contains('//') && !self.mountPath.split('/').exists(p, p in ['.', '..'])"
                " && !self.mountPath.endsWith('/')",
                "mountPath %s is not normalized: use a path without //, ., .. or a trailing /",
                "self.mountPath",
            ),
        )
    )
    name: Label
    """Name of a volume in `template.volumes`."""
    mount_path: Annotated[str, Field(min_length=2, max_length=512, pattern=r"^/[^:]+$")]
    """Absolute path in the container; /models, /etc/penstock, /etc/penstock-keys and /etc/penstock-tls are reserved."""
    sub_path: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=512,
                json_schema_extra=rules(
                    rule(
                        "!self.startsWith('/') && !self.split('/').exists(p, p == '..')",
                        "subPath %s leaves its volume: use a relative path without ..",
                        "self",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Relative path inside the volume; defaults to its root."""
    read_only: bool | None = None
    """As core/v1; defaults to false."""


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim in the pool's namespace."""

    claim_name: Name
    """Name of the PersistentVolumeClaim."""
    read_only: bool | None = None
    """As core/v1; defaults to false."""


class SecretVolume(ApiModel):
    """A Secret in the pool's namespace."""

    secret_name: Name
    """Name of the Secret."""


class VolumeMedium(StrEnum):
    """Storage medium of an emptyDir."""

    MEMORY = "Memory"


class EmptyDirVolume(ApiModel):
    """Scratch space with the lifetime of the pod."""

    medium: VolumeMedium | None = None
    """Storage medium; defaults to the node's disk. Memory counts against the container's memory limit."""
    size_limit: Quantity | None = None
    """Size limit; if unset, only the node limits it."""


_MEMBERS = ("persistentVolumeClaim", "configMap", "secret", "emptyDir")
_SET = "[" + ", ".join(f"has(self.{member})" for member in _MEMBERS) + "].filter(x, x).size()"


class Volume(ApiModel):
    """A pod volume: exactly one member, as core/v1. There is no hostPath."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{_SET} == 1",
                f"volume %s sets %s sources: set exactly one of {', '.join(_MEMBERS)}",
                "self.name",
                _SET,
            ),
            rule(
                "!self.name.startsWith('penstock-')",
                "volume name %s is reserved: choose one that does not begin with penstock-",
                "self.name",
            ),
        )
    )
    name: Label
    """Name that `container.volumeMounts` refers to."""
    persistent_volume_claim: ClaimVolume | None = None
    """A PersistentVolumeClaim in the pool's namespace."""
    config_map: LocalObjectReference | None = None
    """A ConfigMap in the pool's namespace."""
    secret: SecretVolume | None = None
    """A Secret in the pool's namespace."""
    empty_dir: EmptyDirVolume | None = None
    """Scratch space."""
