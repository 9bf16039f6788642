"""What is: the frozen values that `observe/` hands to `decide/`. Times are Unix seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from penstock_api.limits import CurveSums, Loading
from penstock_api.types.policy import PolicySpec, PolicyStatus
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus


@dataclass(frozen=True, slots=True)
class PoolObject:
    """An `InferencePool` as last seen."""

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

    @classmethod
    def of(cls, meta: Mapping[str, Any], spec: PoolSpec, status: PoolStatus) -> "PoolObject":
        """Return the pool of this metadata, in the API server's words; spec and status are read by the caller."""
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
        )


@dataclass(frozen=True, slots=True)
class PolicyObject:
    """An `InferencePolicy` as last seen."""

    uid: str
    name: str
    generation: int
    spec: PolicySpec
    status: PolicyStatus


@dataclass(frozen=True, slots=True)
class ChildObject:
    """A namespaced object under one of a pool's child names, whoever owns it."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    controller_uid: str | None
    """UID of the controlling owner reference, or None."""
    deleting: bool
    manifest: Mapping[str, Any]
    """The object as the API server gave it, without `status` and `metadata.managedFields`."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """The part of `status` that decisions read (Deployments only)."""


@dataclass(frozen=True, slots=True)
class PodProblem:
    """Why a pod is not serving, in Kubernetes' own words."""

    reason: str
    """CamelCase: `Unschedulable`, `ImagePullBackOff`, `ModelLoadFailed`, `OOMKilled`, ..."""
    message: str


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod that belongs to a pool: its controller is a ReplicaSet of the pool's Deployment."""

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
    """The runtime container's image by digest, once the kubelet has said it."""
    scheduled_since: float | None = None
    """When it was bound to a node."""
    tls_name: str | None = None
    """The name that its certificate is for; None: it speaks plain HTTP."""


class SignalSource(StrEnum):
    """Where this tick's samples came from."""

    PROMETHEUS = "Prometheus"
    PODS = "Pods"
    NONE = "None"


class UtilizationSource(StrEnum):
    """What measured GPU utilisation."""

    DCGM = "Dcgm"
    NVML = "Nvml"
    ENGINE = "EngineBusyShare"


MEASURED_MIN, MEASURED_MAX = 1e-30, 1e15
"""Of a queue, counter or duration that is not 0; their squares, fourth powers and ratios are then all numbers."""


def is_measured(value: float) -> bool:
    """Tell whether a value is a measurement: 0, or between MEASURED_MIN and MEASURED_MAX; NaN is none."""
    return value == 0 or MEASURED_MIN <= value <= MEASURED_MAX


def measured(value: float | None) -> float | None:
    """Return `value` if it is a measurement. Else None, absent."""
    return value if value is not None and is_measured(value) else None


@dataclass(frozen=True, slots=True)
class GenerationSample:
    """What a pod that generates text reported beside what every pod does; None is absent."""

    epoch: int
    """Of `sums`; what an earlier epoch counted is no part of them."""
    sums: tuple[float, ...]
    """15 sums over steps, as `penstock_api.limits.GenerationCurveSums`."""
    warm_up: tuple[float, ...] | None = None
    """Those of epoch 0, which are the steps that were timed at load; None once later ones took their place."""
    generated_tokens: float | None = None
    cache_usage: float | None = None
    """Share of the KV cache that running sequences hold, 0 to 1."""
    first_token_buckets: tuple[tuple[float, float], ...] = ()
    """Of completed requests, as `PodSample.batch_duration_buckets`."""
    output_token_buckets: tuple[tuple[float, float], ...] = ()
    """The mean time between tokens after the first, of the same."""


@dataclass(frozen=True, slots=True)
class PodSample:
    """What one pod reported: gauges as they stand, and raw counters that only grow.

    NaN, negative and infinite values never get in here: the observer turns them into None.
    None is absent, which is not zero.
    """

    uid: str
    time: float
    """When the store took it, by the store's own clock."""
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
    """Admitted requests that ended, however, and refused ones where the fault was not their client's."""
    request_duration_buckets: tuple[tuple[float, float], ...] = ()
    """Of completed requests, from the door to the end, as `batch_duration_buckets`."""
    generation: GenerationSample | None = None
    """Only of a pod that generates text."""


@dataclass(frozen=True, slots=True)
class PoolSignals:
    """All samples of one pool in one round, and how they were had."""

    source: SignalSource
    samples: tuple[PodSample, ...] = ()
    """In any order; a pod may have several, of different times."""
    problem: str = ""
    """Why a better source was not used, in words; empty when it was."""
    queried_at: float | None = None
    """The store's own clock when it was asked: ages are against it. None: the operator's clock."""
    url: str = ""
    """Of the Prometheus that answered; empty where another source did."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The last answer of a pod's control API to this operator."""

    generation: int | None
    """None: it could not be reached, or refused."""
    effective_max: int | None
    problem: str = ""
    loading: Loading | None = None
    """How far its load has come, where it loads and obeys nothing yet."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The API server's last refusal of a write of one child (quota, admission, validation).

    Kept until a write of that child succeeds; decisions turn it into a condition, never into silence.
    """

    kind: str
    name: str
    reason: str
    """The API server's own CamelCase reason: `Forbidden`, `Invalid`, ..."""
    message: str


@dataclass(frozen=True, slots=True)
class PoolView:
    """Everything decisions read about one pool."""

    pool: PoolObject
    namespace_labels: Mapping[str, str]
    children: Mapping[tuple[str, str], ChildObject]
    """By (kind, name): the pool's child names that exist, whoever owns them."""
    revisions: tuple[ChildObject, ...]
    """ControllerRevisions controlled by the pool, oldest first."""
    pods: tuple[PodObject, ...]
    signals: PoolSignals
    acknowledgements: Mapping[str, Acknowledgement]
    """By pod UID."""
    rejections: tuple[Rejection, ...] = ()
    past: PoolSignals | None = None
    """What a store still has of the last minutes, of a pool just met; samples without what only people read."""
    settings_record: str | None = None
    """What the operator keeps of the pool's settings in its own namespace, as JSON."""


@dataclass(frozen=True, slots=True)
class PoolLabels:
    """What selectors of policies read of a pool, due or not."""

    uid: str
    namespace: str
    namespace_labels: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SchemaSkew:
    """How a CRD as it is served differs from the one that this operator was built with: field paths, the topmost."""

    lacking: frozenset[str] = frozenset()
    """It is older: these are unknown to it."""
    unknown: frozenset[str] = frozenset()
    """It is newer: these are unknown to this operator."""

    def sentence(self) -> str:
        """Return what differs and what to do about it; empty where nothing does."""
        parts = []
        if self.lacking:
            told = f"lacks {_listed(self.lacking)}, which this operator knows and does without"
            parts.append(f"{told}: upgrade the CRDs (helm upgrade, or kubectl apply -f crds/)")
        if self.unknown:
            told = f"has {_listed(self.unknown)}, which this operator does not know"
            parts.append(f"{told}: upgrade the operator")
        return "; and it ".join(parts)


AS_BUILT = SchemaSkew()


def _listed(paths: frozenset[str]) -> str:
    shown = sorted(paths)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return ", ".join(shown[:5]) + more


@dataclass(frozen=True, slots=True)
class Observed:
    """The cluster, as one pass sees it."""

    pools: tuple[PoolView, ...]
    """Only the pools that are due."""
    policies: tuple[PolicyObject, ...]
    policies_readable: bool
    lease_transitions: Mapping[str, int]
    """By namespace of the pools: of the Lease that counts there."""
    control_keys: Mapping[str, str]
    """Public keys for the pods' settings: kid -> base64 of the raw Ed25519 key."""
    all_pools: tuple[PoolLabels, ...] = ()
    """Every pool that is not being deleted: `matchedPools` of a policy counts over these."""
    pool_schema: SchemaSkew = AS_BUILT
    """How the served CRD of pools differs."""
