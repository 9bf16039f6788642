"""`ContainerTemplate`: additions to the runtime container: environment, mounts, CPU and memory."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import ATOMIC_MAP, Name, Quantity, list_map, rule, rules
from penstock_api.types.pod_template.claims import ContainerResourceClaim
from penstock_api.types.pod_template.volumes import VolumeMount

RESERVED_ENV_PREFIX = "PENSTOCK_"
MAX_ENV = 64
PLAIN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_KNOWN_RESOURCE = f"k in {list(PLAIN_RESOURCES)} || k.startsWith('hugepages-')"
_ABOVE = (
    "k in self.limits"
    " && quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) > 0"
)
_TOO_MUCH = f"self.requests.filter(k, {_ABOVE})"


class ImagePullPolicy(StrEnum):
    """As core/v1."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class KeySelector(ApiModel):
    """One key of a ConfigMap or Secret in the pool's namespace."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    name: Name
    """Name of the ConfigMap or Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._A-Za-z0-9]+$")]
    """Key in the ConfigMap or Secret."""


class EnvSource(ApiModel):
    """Source of the value of an environment variable: exactly one member."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.secretKeyRef) != has(self.configMapKeyRef)",
                "valueFrom sets %s of secretKeyRef and configMapKeyRef: set exactly one",
                "has(self.secretKeyRef) ? 'both' : 'neither'",
            )
        )
    )
    secret_key_ref: KeySelector | None = None
    """A key of a Secret in the pool's namespace."""
    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap in the pool's namespace."""


class EnvVar(ApiModel):
    """As core/v1, without field references. Names that begin with PENSTOCK_ are reserved."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!self.name.startsWith('{RESERVED_ENV_PREFIX}')",
                f"env name %s is reserved: choose one that does not begin with {RESERVED_ENV_PREFIX}; settings of the runtime"
                " have fields: spec.runtime, spec.generation and spec.model.dtype",
                "self.name",
            ),
            rule(
                "!(has(self.value) && has(self.valueFrom))",
                "env %s sets both value and valueFrom: keep one",
                "self.name",
            ),
        )
    )
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=4096)] | None = None
    """Literal value."""
    value_from: EnvSource | None = None
    """Source of the value."""


ResourceMap = Annotated[
    dict[str, Quantity],
    Field(
        max_length=8,
        json_schema_extra=rules(
            rule(
                f"self.all(k, {_KNOWN_RESOURCE})",
                f"resources %s are not supported: only {', '.join(PLAIN_RESOURCES)} and hugepages-*;"
                " request devices in spec.accelerator",
                f"self.filter(k, !({_KNOWN_RESOURCE}))",
            )
        ),
    ),
]


class Resources(ApiModel):
    """CPU and memory, as core/v1; `spec.accelerator` sets the accelerator."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.requests) || !has(self.limits) || !self.requests.exists(k, {_ABOVE})",
                "resources.requests is above resources.limits: %s; lower the request or raise the limit",
                f"{_TOO_MUCH}.map(k, '%s %s > %s'.format([dyn(k), dyn(self.requests[k]),"
                " dyn(self.limits[k])]))",
            )
        )
    )
    requests: ResourceMap | None = None
    """Resources that the scheduler reserves."""
    limits: ResourceMap | None = None
    """Resource limits; on a CPU the memory limit bounds the batch cap."""
    claims: (
        Annotated[
            tuple[ContainerResourceClaim, ...],
            Field(max_length=8, json_schema_extra=list_map("name")),
        ]
        | None
    ) = None
    """Entries of `template.resourceClaims` that the container uses."""


class ContainerTemplate(ApiModel):
    """Additions to the runtime container."""

    env: (
        Annotated[tuple[EnvVar, ...], Field(max_length=MAX_ENV, json_schema_extra=list_map("name"))]
        | None
    ) = None
    """Environment variables."""
    volume_mounts: (
        Annotated[
            tuple[VolumeMount, ...], Field(max_length=32, json_schema_extra=list_map("mountPath"))
        ]
        | None
    ) = None
    """Mounts of the volumes in `template.volumes`."""
    resources: Resources | None = None
    """CPU and memory."""
