"""What a pool may say about its pods: curated, bounded, and nothing that leaves the sandbox.

Not offered: host namespaces, hostPath, privileged, capabilities (DESIGN, section 5, Rights).
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from penstock_api.base import ApiModel

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
Label = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
LabelValue = Annotated[
    str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]
LabelMap = Annotated[dict[str, LabelValue], Field(max_length=32)]
Text = Annotated[str, Field(max_length=1024)]
Path = Annotated[str, Field(min_length=1, max_length=1024)]
Quantity = Annotated[
    int | str,
    Field(json_schema_extra={"x-kubernetes-int-or-string": True}),
]


def rule(expression: str, message: str, **more: str) -> dict[str, str]:
    """Return one CEL rule; `message` is itself a CEL string expression (`messageExpression`)."""
    return {"rule": expression, "messageExpression": message, **more}


def rules(*each: dict[str, str]) -> dict[str, Any]:
    """Return the JSON-schema extra that carries CEL rules."""
    return {"x-kubernetes-validations": list(each)}


def list_map(*keys: str) -> dict[str, Any]:
    """Return the JSON-schema extra of a list that merges by key."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """As core/v1."""

    key: Annotated[str, Field(max_length=316)] | None = None
    operator: TolerationOperator | None = None
    value: LabelValue | None = None
    effect: TaintEffect | None = None
    toleration_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None


class LocalObjectReference(ApiModel):
    """An object of the pool's namespace, by name."""

    name: Name


class KeySelector(ApiModel):
    """One key of a ConfigMap or Secret of the pool's namespace."""

    name: Name
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._A-Za-z0-9]+$")]


class EnvSource(ApiModel):
    """Where an environment variable's value comes from: exactly one member."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "has(self.secretKeyRef) != has(self.configMapKeyRef)",
                "'valueFrom must set exactly one of secretKeyRef and configMapKeyRef'",
            )
        )
    }
    secret_key_ref: KeySelector | None = None
    config_map_key_ref: KeySelector | None = None


class EnvVar(ApiModel):
    """As core/v1, without field references. Names that begin with PENSTOCK_ are the operator's."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!self.name.startsWith('PENSTOCK_')",
                "'env name ' + self.name + ' is reserved: choose one that does not begin with PENSTOCK_'",
            ),
            rule(
                "!(has(self.value) && has(self.valueFrom))",
                "'env ' + self.name + ' sets both value and valueFrom: keep one'",
            ),
        )
    }
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: Annotated[str, Field(max_length=4096)] | None = None
    value_from: EnvSource | None = None


class VolumeMount(ApiModel):
    """As core/v1. The operator's own mounts are under /etc/penstock and /models."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!(self.mountPath == '/etc/penstock' || self.mountPath.startsWith('/etc/penstock/')"
                " || self.mountPath == '/models' || self.mountPath.startsWith('/models/'))",
                "'mountPath ' + self.mountPath + ' is reserved: choose one outside /etc/penstock and /models'",
            )
        )
    }
    name: Label
    mount_path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/[^:]+$")]
    sub_path: Path | None = None
    read_only: bool | None = None


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim of the pool's namespace."""

    claim_name: Name
    read_only: bool | None = None


class SecretVolume(ApiModel):
    """A Secret of the pool's namespace."""

    secret_name: Name


class VolumeMedium(StrEnum):
    """Where an emptyDir lies."""

    MEMORY = "Memory"


class EmptyDirVolume(ApiModel):
    """Scratch space that lives as long as the pod."""

    medium: VolumeMedium | None = None
    size_limit: Quantity | None = None


_MEMBERS = ("persistentVolumeClaim", "configMap", "secret", "emptyDir")


class Volume(ApiModel):
    """A pod volume: exactly one member. There is no hostPath."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "[" + ", ".join(f"has(self.{one})" for one in _MEMBERS) + "].filter(x, x).size() == 1",
                f"'volume ' + self.name + ' must set exactly one of {', '.join(_MEMBERS)}'",
            ),
            rule(
                "!self.name.startsWith('penstock-')",
                "'volume name ' + self.name + ' is reserved: choose one that does not begin with penstock-'",
            ),
        )
    }
    name: Label
    persistent_volume_claim: ClaimVolume | None = None
    config_map: LocalObjectReference | None = None
    secret: SecretVolume | None = None
    empty_dir: EmptyDirVolume | None = None


class Resources(ApiModel):
    """CPU and memory, as core/v1. The accelerator is set by `spec.accelerator`."""

    requests: Annotated[dict[str, Quantity], Field(max_length=8)] | None = None
    limits: Annotated[dict[str, Quantity], Field(max_length=8)] | None = None


class ContainerTemplate(ApiModel):
    """What a pool may add to the runtime container."""

    env: (
        Annotated[
            tuple[EnvVar, ...], Field(max_length=64, json_schema_extra=list_map("name"))
        ]
        | None
    ) = None
    volume_mounts: (
        Annotated[
            tuple[VolumeMount, ...], Field(max_length=32, json_schema_extra=list_map("mountPath"))
        ]
        | None
    ) = None
    resources: Resources | None = None


class PodTemplate(ApiModel):
    """What a pool may add to its pods; every field is of the template class: a change rolls pods."""

    labels: LabelMap | None = None
    annotations: Annotated[dict[str, Text], Field(max_length=32)] | None = None
    node_selector: LabelMap | None = None
    tolerations: (
        Annotated[
            tuple[Toleration, ...],
            Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
        ]
        | None
    ) = None
    priority_class_name: Name | None = None
    service_account_name: Name | None = None
    image_pull_secrets: (
        Annotated[
            tuple[LocalObjectReference, ...],
            Field(max_length=16, json_schema_extra=list_map("name")),
        ]
        | None
    ) = None
    volumes: (
        Annotated[
            tuple[Volume, ...], Field(max_length=32, json_schema_extra=list_map("name"))
        ]
        | None
    ) = None
    container: ContainerTemplate | None = None
