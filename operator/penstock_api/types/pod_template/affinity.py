"""`Affinity`: rules about the nodes of a pool's pods and their distance to other pods, as core/v1."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.types.fields import ATOMIC_LIST, ATOMIC_MAP, Label, LabelKey, rule, rules
from penstock_api.types.selectors import LabelSelector

MAX_TERMS = 16
TermWeight = Annotated[int, Field(ge=1, le=100)]
NodeValue = Annotated[str, Field(max_length=253)]
"""Value of a node's label or field; a node's name may have 253 characters."""
TopologyKey = LabelKey
LabelKeys = Annotated[
    tuple[LabelKey, ...], Field(max_length=MAX_TERMS, json_schema_extra=ATOMIC_LIST)
]


class NodeSelectorOperator(StrEnum):
    """As core/v1."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_COUNT = "(has(self.values) ? self.values.size() : 0)"


class NodeSelectorRequirement(ApiModel):
    """As core/v1."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"self.operator in ['In', 'NotIn'] ? {_COUNT} > 0"
                f" : self.operator in ['Gt', 'Lt'] ? {_COUNT} == 1 : {_COUNT} == 0",
                "node selector key %s with operator %s has %s values: In and NotIn need some, Gt and Lt need one,"
                " Exists and DoesNotExist need none",
                "self.key",
                "self.operator",
                _COUNT,
            )
        )
    )
    key: LabelKey
    """Key of the node's label, or `metadata.name` for a field of the node."""
    operator: NodeSelectorOperator
    """Comparison operator."""
    values: (
        Annotated[tuple[NodeValue, ...], Field(max_length=64, json_schema_extra=ATOMIC_LIST)] | None
    ) = None
    """Values, for In, NotIn, Gt and Lt."""


Requirements = Annotated[
    tuple[NodeSelectorRequirement, ...],
    Field(max_length=MAX_TERMS, json_schema_extra=ATOMIC_LIST),
]


class NodeSelectorTerm(ApiModel):
    """As core/v1; an empty term selects no node."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    match_expressions: Requirements | None = None
    """Requirements on the node's labels, which must all be met."""
    match_fields: Requirements | None = None
    """Requirements on the node's fields, which must all be met."""


class NodeSelector(ApiModel):
    """As core/v1."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    node_selector_terms: Annotated[
        tuple[NodeSelectorTerm, ...],
        Field(min_length=1, max_length=MAX_TERMS, json_schema_extra=ATOMIC_LIST),
    ]
    """Terms, one of which must match."""


class PreferredSchedulingTerm(ApiModel):
    """As core/v1."""

    weight: TermWeight
    """Weight of the preference."""
    preference: NodeSelectorTerm
    """Nodes that are preferred."""


class NodeAffinity(ApiModel):
    """As core/v1."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes that the pods may run on."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[
            tuple[PreferredSchedulingTerm, ...],
            Field(max_length=MAX_TERMS, json_schema_extra=ATOMIC_LIST),
        ]
        | None
    ) = None
    """Nodes that the scheduler prefers."""


class PodAffinityTerm(ApiModel):
    """As core/v1."""

    topology_key: TopologyKey
    """Label of nodes whose value defines a domain, such as topology.kubernetes.io/zone."""
    label_selector: LabelSelector | None = None
    """Selects the other pods; the pool's own have the label penstock.dev/pool."""
    match_label_keys: LabelKeys | None = None
    """Keys of the pod's labels whose values the other pods must share."""
    mismatch_label_keys: LabelKeys | None = None
    """Keys of the pod's labels whose values the other pods must not share."""
    namespaces: (
        Annotated[tuple[Label, ...], Field(max_length=MAX_TERMS, json_schema_extra=ATOMIC_LIST)]
        | None
    ) = None
    """Namespaces of the other pods; defaults to the pool's namespace."""
    namespace_selector: LabelSelector | None = None
    """Selects namespaces of the other pods, in addition to `namespaces`."""


class WeightedPodAffinityTerm(ApiModel):
    """As core/v1."""

    weight: TermWeight
    """Weight of the preference."""
    pod_affinity_term: PodAffinityTerm
    """Domains that are preferred."""


class PodAffinity(ApiModel):
    """As core/v1, for affinity and anti-affinity."""

    required_during_scheduling_ignored_during_execution: (
        Annotated[
            tuple[PodAffinityTerm, ...],
            Field(max_length=MAX_TERMS, json_schema_extra=ATOMIC_LIST),
        ]
        | None
    ) = None
    """Terms that the scheduler must meet."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[
            tuple[WeightedPodAffinityTerm, ...],
            Field(max_length=MAX_TERMS, json_schema_extra=ATOMIC_LIST),
        ]
        | None
    ) = None
    """Terms that the scheduler prefers to meet."""


class Affinity(ApiModel):
    """As core/v1."""

    node_affinity: NodeAffinity | None = None
    """Rules about nodes."""
    pod_affinity: PodAffinity | None = None
    """Pods to be near to."""
    pod_anti_affinity: PodAffinity | None = None
    """Pods to be apart from."""


class UnsatisfiableAction(StrEnum):
    """As core/v1."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class NodeInclusion(StrEnum):
    """As core/v1."""

    HONOR = "Honor"
    IGNORE = "Ignore"


class TopologySpreadConstraint(ApiModel):
    """As core/v1."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
                "minDomains %s requires whenUnsatisfiable DoNotSchedule, got %s: remove it, or set that value",
                "self.minDomains",
                "self.whenUnsatisfiable",
            )
        )
    )
    topology_key: TopologyKey
    """Label of nodes whose value defines a domain, such as topology.kubernetes.io/zone."""
    when_unsatisfiable: UnsatisfiableAction
    """What the scheduler does with a pod that would exceed `maxSkew`."""
    max_skew: Annotated[int, Field(ge=1, le=1000)]
    """Largest difference in pods between two domains."""
    min_domains: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Number of domains below which the smallest counts as empty; defaults to 1."""
    label_selector: LabelSelector | None = None
    """Selects the pods that count; defaults to the pods of the pool."""
    match_label_keys: LabelKeys | None = None
    """Keys of the pod's labels whose values the counted pods must share."""
    node_affinity_policy: NodeInclusion | None = None
    """Whether nodes outside the pod's affinity count as domains; defaults to Honor."""
    node_taints_policy: NodeInclusion | None = None
    """Whether taints of nodes are considered; defaults to Ignore."""
