"""`PodTemplate`: the additions that a pool can make to its pods, a curated subset of the pod spec.

Not supported: host namespaces, hostPath, privileged, capabilities (docs/design/design.md#rights).
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import (
    ATOMIC_LIST,
    LABEL_KEY,
    AnnotationMap,
    LabelMap,
    LabelValue,
    Name,
    OwnLabelMap,
    list_map,
    rule,
    rules,
)
from penstock_api.types.pod_template.affinity import Affinity, TopologySpreadConstraint
from penstock_api.types.pod_template.claims import PodResourceClaim
from penstock_api.types.pod_template.container import ContainerTemplate
from penstock_api.types.pod_template.security import PodSecurityContext
from penstock_api.types.pod_template.volumes import LocalObjectReference, Volume


class TolerationOperator(StrEnum):
    """Comparison operator of a toleration."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """Effect of a taint."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """As core/v1."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'",
                "toleration value %s requires operator Equal: remove it, or use Equal",
                "self.value",
            ),
            rule(
                "has(self.key) || has(self.operator) && self.operator == 'Exists'",
                "toleration without key has operator %s: set key, or operator Exists",
                "has(self.operator) ? self.operator : 'Equal'",
            ),
            rule(
                "!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",
                "tolerationSeconds %s requires effect NoExecute: remove it, or set that effect",
                "self.tolerationSeconds",
            ),
        )
    )
    key: Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL_KEY)] | None = None
    """Key of the taint; if unset with operator Exists, every taint."""
    operator: TolerationOperator | None = None
    """Comparison operator; defaults to Equal."""
    value: LabelValue | None = None
    """Value of the taint, for operator Equal."""
    effect: TaintEffect | None = None
    """Effect of the taint; if unset, every effect."""
    toleration_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """Time for which a NoExecute taint is tolerated; defaults to unlimited."""


class PodTemplate(ApiModel):
    """Additions to the pods; a change of any field triggers a rollout."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.container) || !has(self.container.volumeMounts)"
                " || self.container.volumeMounts.all(m, has(self.volumes)"
                " && self.volumes.exists(v, v.name == m.name))",
                "container.volumeMounts refers to %s, not in template.volumes: add the volume, or remove the mount",
                "self.container.volumeMounts.filter(m, !has(self.volumes)"
                " || !self.volumes.exists(v, v.name == m.name)).map(m, m.name)",
            ),
            rule(
                "!has(self.container) || !has(self.container.resources)"
                " || !has(self.container.resources.claims)"
                " || self.container.resources.claims.all(c, has(self.resourceClaims)"
                " && self.resourceClaims.exists(r, r.name == c.name))",
                "container.resources.claims refers to %s, not in template.resourceClaims: add the claim there, or remove it",
                "self.container.resources.claims.filter(c, !has(self.resourceClaims)"
                " || !self.resourceClaims.exists(r, r.name == c.name)).map(c, c.name)",
            ),
        )
    )
    labels: OwnLabelMap | None = None
    """Additional labels of the pods."""
    annotations: AnnotationMap | None = None
    """Additional annotations of the pods."""
    node_selector: LabelMap | None = None
    """Labels that a node must have."""
    tolerations: (
        Annotated[tuple[Toleration, ...], Field(max_length=32, json_schema_extra=ATOMIC_LIST)]
        | None
    ) = None
    """Taints that the pods tolerate."""
    affinity: Affinity | None = None
    """Rules about nodes, and about other pods to be near to or apart from."""
    topology_spread_constraints: (
        Annotated[
            tuple[TopologySpreadConstraint, ...],
            Field(max_length=8, json_schema_extra=list_map("topologyKey", "whenUnsatisfiable")),
        ]
        | None
    ) = None
    """How the pods are spread over zones, nodes or other domains."""
    scheduler_name: Name | None = None
    """Scheduler of the pods; defaults to the cluster's default scheduler."""
    runtime_class_name: Name | None = None
    """RuntimeClass of the pods, such as `nvidia` or `kata`; defaults to the cluster's default."""
    security_context: PodSecurityContext | None = None
    """User and group IDs of the pods."""
    resource_claims: (
        Annotated[
            tuple[PodResourceClaim, ...], Field(max_length=8, json_schema_extra=list_map("name"))
        ]
        | None
    ) = None
    """Claims of devices by dynamic resource allocation, for `container.resources.claims`; set `accelerator.count` to 0 if
    they replace the accelerator. GPU budgets do not count them."""
    priority_class_name: Name | None = None
    """PriorityClass of the pods."""
    service_account_name: Name | None = None
    """ServiceAccount of the pods; defaults to a separate one per pool, without a token."""
    image_pull_secrets: (
        Annotated[
            tuple[LocalObjectReference, ...],
            Field(max_length=16, json_schema_extra=list_map("name")),
        ]
        | None
    ) = None
    """Pull secrets of the runtime image and of a model of type Image."""
    volumes: (
        Annotated[tuple[Volume, ...], Field(max_length=32, json_schema_extra=list_map("name"))]
        | None
    ) = None
    """Volumes for `container.volumeMounts`."""
    container: ContainerTemplate | None = None
    """Additions to the runtime container."""
