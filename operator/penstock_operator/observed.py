"""Snapshot of the cluster: the frozen values that `observe/` passes to `decide/`. Times are Unix seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from penstock_api.hold import StartPart
from penstock_api.pod_contract import CurveSums, Loading, ModelBackendState
from penstock_api.types.policy import PolicySpec, PolicyStatus
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from penstock_operator.deleted_pool import DeletedPool
from penstock_operator.schema_skew import AS_BUILT, SchemaSkew
from penstock_operator.variants import NO_FIGURES, VariantFigures, VariantOwner, variant_owner


@dataclass(frozen=True, slots=True)
class PoolObject:
    """An `InferencePool` as last read."""

    uid: str
    namespace: str
    name: str
    generation: int
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    deleting: bool
    spec: PoolSpec
    status: PoolStatus
    created: float
    variant_of: VariantOwner | None = None
    """The pool that controls this one, if it is the pool of a variant."""

    @classmethod
    def of(cls, meta: Mapping[str, Any], spec: PoolSpec, status: PoolStatus) -> "PoolObject":
        """Return the pool with this `metadata`; the caller has parsed spec and status."""
        return cls(
            uid=meta["uid"],
            namespace=meta["namespace"],
            name=meta["name"],
            generation=meta.get("generation", 0),
            resource_version=meta["resourceVersion"],
            labels=meta.get("labels") or {},
            annotations=meta.get("annotations") or {},
            deleting="deletionTimestamp" in meta,
            spec=spec,
            status=status,
            created=datetime.fromisoformat(meta["creationTimestamp"]).timestamp(),
            variant_of=variant_owner(meta),
        )


@dataclass(frozen=True, slots=True)
class PolicyObject:
    """An `InferencePolicy` as last read."""

    uid: str
    name: str
    generation: int
    spec: PolicySpec
    status: PolicyStatus


@dataclass(frozen=True, slots=True)
class UnreadablePolicy:
    """An `InferencePolicy` with fields that this operator cannot parse, because its schema is newer."""

    name: str
    problem: str
    """The first such field, and which settings of the policy apply."""
    applies: bool = True
    """Whether a part of it applies; if not, which pools it selects is unknown."""


@dataclass(frozen=True, slots=True)
class ChildObject:
    """A namespaced object under one of a pool's child names, regardless of owner."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    controller_uid: str | None
    """UID of the controlling owner reference, or None."""
    deleting: bool
    manifest: Mapping[str, Any]
    """The object as the API server returned it, without `status` and `metadata.managedFields`."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """The part of `status` that decisions read (workloads only)."""
    owner_uids: frozenset[str] = frozenset()
    """UIDs of all owner references."""


@dataclass(frozen=True, slots=True)
class PodProblem:
    """Why a pod does not serve: reason and message from its Kubernetes status."""

    reason: str
    """CamelCase: `Unschedulable`, `ImagePullBackOff`, `ModelLoadFailed`, `OOMKilled`, ..."""
    message: str


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod that belongs to a pool by its chain of controllers; of a group of pods its leader."""

    uid: str
    name: str
    ip: str | None
    created: float
    scheduled: bool
    unschedulable_since: float | None
    ready: bool
    ready_since: float | None
    terminating: bool
    host_network: bool
    revision: str | None
    """Name of the ControllerRevision its template came from (a pod label), if any."""
    problem: PodProblem | None
    restarts: int
    image: str | None = None
    """The runtime container's image by digest; None until the kubelet reports it."""
    scheduled_since: float | None = None
    """Time of binding to a node."""
    tls_name: str | None = None
    """DNS name in its certificate; None: it serves plain HTTP."""
    node: str | None = None
    """Name of its node; None before binding."""
    node_selector: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Labels that its node has, because it selects the node by them."""


class SignalSource(StrEnum):
    """Source of this tick's samples."""

    PROMETHEUS = "Prometheus"
    PODS = "Pods"
    NONE = "None"


class UtilizationSource(StrEnum):
    """Source of a GPU utilization."""

    DCGM = "Dcgm"
    NVML = "Nvml"
    ENGINE = "EngineBusyShare"


@dataclass(frozen=True, slots=True)
class GenerationSample:
    """The additional metrics of a pod that generates text; None is absent."""

    epoch: int
    """Epoch of `sums`; counts of earlier epochs are not part of them."""
    sums: tuple[float, ...]
    """15 sums over steps, in the order of `penstock_api.pod_contract.GenerationCurveSums`."""
    warm_up: tuple[float, ...] | None = None
    """Sums of epoch 0, the steps that were timed during the load; None once a later epoch has replaced them."""
    generated_tokens: float | None = None
    cache_usage: float | None = None
    """Share of the KV cache in use by running sequences, 0 to 1."""
    first_token_buckets: tuple[tuple[float, float], ...] = ()
    """Time to first token of completed requests, as `PodSample.batch_duration_buckets`."""
    output_token_buckets: tuple[tuple[float, float], ...] = ()
    """Time per output token of completed requests."""


@dataclass(frozen=True, slots=True)
class PodSample:
    """One scrape of a pod: gauges, and raw counters that only grow.

    The observer replaces NaN, negative and infinite values by None. None is absent, which is not zero.
    """

    uid: str
    time: float
    """Time of the scrape, by the clock of Prometheus."""
    waiting: float | None = None
    running: float | None = None
    requests_received: float | None = None
    rows_received: float | None = None
    curve: CurveSums | None = None
    batch_duration_buckets: tuple[tuple[float, float], ...] = ()
    """(upper bound in seconds, cumulative count) ascending; the last bound is infinity."""
    out_of_memory_splits: float | None = None
    batch_cap: float | None = None
    batch_cap_bound: float | None = None
    limits_generation: float | None = None
    gpu_utilization: float | None = None
    """0 to 1."""
    duty_source: UtilizationSource | None = None
    requests_settled: float | None = None
    """Admitted requests that ended with any outcome, and rejections that were not the client's fault, without batch work."""
    requests_completed: float | None = None
    """Batch work included."""
    request_duration_buckets: tuple[tuple[float, float], ...] = ()
    """Durations of completed requests, from arrival to the last byte, as `batch_duration_buckets`."""
    generation: GenerationSample | None = None
    """None unless the pod generates text."""
    interactive_served: float | None = None
    """Rows of completed requests, or generated tokens, without batch work."""
    batch_served: float | None = None
    """The same of batch work."""


@dataclass(frozen=True, slots=True)
class PoolSignals:
    """All samples of one pool in one round, and their source."""

    source: SignalSource
    samples: tuple[PodSample, ...] = ()
    """In any order; a pod may have several, of different times."""
    problem: str = ""
    """Why the preferred source was not used; empty if it was."""
    queried_at: float | None = None
    """Time of the query by the clock of Prometheus, from which ages are computed. None: the operator's clock."""
    url: str = ""
    """URL of the Prometheus that answered; empty for another source."""
    server: str = ""
    """URL of the Prometheus that is configured for the pool, whether or not it answered; empty if none is."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The last response of a pod's control API."""

    generation: int | None
    """Limits generation in force; None: the pod was unreachable, or rejected the call."""
    effective_max: int | None
    problem: str = ""
    loading: Loading | None = None
    """Progress of a load; None once the model is loaded."""
    model_backend: ModelBackendState | None = None
    """Backend that runs the model; None: unknown, or the pod generates text."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The API server's last rejection of a write of one child; kept until one succeeds, and reported in a condition."""

    ALTERED: ClassVar[str] = "Altered"
    """Reason of an accepted write whose values a mutating webhook replaced."""

    kind: str
    name: str
    reason: str
    """CamelCase reason of the API server: `Forbidden`, `Invalid`, ..."""
    message: str
    stored: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The object after an altered write, as in `ChildWrite.live`; None after a rejected one."""


@dataclass(frozen=True, slots=True)
class RoutedPool:
    """A pool that its namespace's gateway has to know: its spec selects the gateway, or its Service still has a listener."""

    uid: str
    namespace: str
    name: str
    created: float
    wanted: bool
    """Whether the spec selects routing mode Gateway."""
    port: int | None
    """Port of its listener, which its Service records."""
    certificate: str | None = None
    """Secret of its certificate; None: plain HTTP."""


class OfferedDemand(NamedTuple):
    """POST requests that arrived at a pool's gateway, held and refused ones too, each once; per second."""

    recent: float
    """Over the last 15 s."""
    newest: float
    """Between the last two reads."""
    window: float
    """Over the last 30 s."""


@dataclass(frozen=True, slots=True)
class GatewayView:
    """The gateway of a namespace, as one of its pools needs it."""

    children: Mapping[tuple[str, str], ChildObject] = field(default_factory=dict)
    """Existing objects under the gateway's names, regardless of owner, by (kind, name)."""
    pods: int = 0
    """Ready pods of the gateway that answered."""
    listening: bool = False
    """Whether there are such pods, and each of them listens for the pool on its port."""
    problem: str = ""
    """Why a pod of the gateway does not listen, or did not answer."""
    holding: bool = False
    """Whether there are such pods, and each of them holds requests that find no pod."""
    held_requests: int = 0
    """Requests that they hold for the pool."""
    last_start: Mapping[StartPart, float] = field(default_factory=dict)
    """Seconds of each part of the last start from zero; empty if none of them saw one."""
    offered: OfferedDemand | None = None
    """Demand that they counted; None if one of them did not answer, or before the first few reads."""


class BatchLoad(NamedTuple):
    """A batch in progress."""

    lines_left: int
    """Lines without an answer."""
    created: float
    expires: float
    rows_per_line: float = 1.0


NO_GATEWAY = GatewayView()


@dataclass(frozen=True, slots=True)
class NodeView:
    """The nodes of a pool's pods, as its cost needs them."""

    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels by the node's name, without nodes that could not be read."""
    problem: str = ""
    """Why a node could not be read, with the remedy; empty if each was, or none had to be."""


NO_NODES = NodeView()


@dataclass(frozen=True, slots=True)
class VariantView:
    """A pool under the name of a variant's pool, regardless of owner, or one that the parent controls."""

    pool: PoolObject
    figures: VariantFigures = NO_FIGURES


@dataclass(frozen=True, slots=True)
class PoolView:
    """Everything that decisions read about one pool."""

    pool: PoolObject
    namespace_labels: Mapping[str, str]
    children: Mapping[tuple[str, str], ChildObject]
    """Existing objects under the pool's child names, regardless of owner, by (kind, name)."""
    revisions: tuple[ChildObject, ...]
    """ControllerRevisions controlled by the pool, oldest first."""
    pods: tuple[PodObject, ...]
    signals: PoolSignals
    acknowledgements: Mapping[str, Acknowledgement]
    """By pod UID."""
    rejections: tuple[Rejection, ...] = ()
    settings_record: str | None = None
    """The pool's settings record in the operator's namespace, as JSON."""
    gateway: GatewayView = NO_GATEWAY
    nodes: NodeView = NO_NODES
    batches: tuple[BatchLoad, ...] | None = None
    """Batches of the pool's model; None without `spec.batchWork`, or while the batch service does not answer."""
    variants: tuple[VariantView, ...] = ()
    """Pools of the variants, by name; empty without variants."""


@dataclass(frozen=True, slots=True)
class PoolLabels:
    """The labels of a pool that policies select by."""

    uid: str
    namespace: str
    namespace_labels: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Observed:
    """The input of one decide step."""

    pools: tuple[PoolView, ...]
    """The pools that are due."""
    policies: tuple[PolicyObject, ...]
    policies_readable: bool
    lease_transitions: Mapping[str, int]
    """`leaseTransitions` of the Lease that governs each namespace of the pools."""
    control_keys: Mapping[str, str]
    """Public keys for the pods' settings: key id -> base64 of the raw Ed25519 key."""
    all_pools: tuple[PoolLabels, ...] = ()
    """Every pool that is not being deleted; `matchedPools` of a policy counts these."""
    deleted_pools: tuple[DeletedPool, ...] = ()
    """Pools that are deleted or being deleted, whose pods may still use devices."""
    unreadable_pools: frozenset[str] = frozenset()
    """UIDs of the pools whose spec cannot be parsed."""
    pool_schema: SchemaSkew = AS_BUILT
    """Difference of the served CRD of pools."""
    routed_pools: tuple[RoutedPool, ...] = ()
    """Every pool that a gateway has to know and that is not being deleted."""
    unreadable_policies: tuple[UnreadablePolicy, ...] = ()
    """Policies that apply in part, by their last readable spec, or not at all; those that apply are in `policies` too."""
