"""Names that cross a process boundary: API group, labels, annotations, ports, paths, variables and metrics."""

from collections.abc import Mapping
from itertools import combinations_with_replacement
from types import MappingProxyType
from typing import Final

GROUP: Final = "penstock.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

POOL_KIND: Final = "InferencePool"
POOL_PLURAL: Final = "inferencepools"
POOL_SHORT_NAMES: Final = ("pspool", "ipool")
"""Not `infpool`, which is the Gateway API Inference Extension's."""
POLICY_KIND: Final = "InferencePolicy"
POLICY_PLURAL: Final = "inferencepolicies"
POLICY_SHORT_NAMES: Final = ("pspolicy", "ipolicy")

FIELD_MANAGER: Final = "penstock"
CHILD_SUFFIX: Final = "-penstock"
"""Suffix of children's names, `<pool>-penstock`; the Service is named `<pool>`."""
MEMORY_SUFFIX: Final = "-penstock-memory"
"""Suffix of the ConfigMap that persists the state of the control law; no pod mounts it."""


def service_host(pool: str, namespace: str) -> str:
    """Return the DNS name of a pool's Service, which its certificate carries."""
    return f"{pool}.{namespace}.svc"


def variant_pool(pool: str, variant: str) -> str:
    """Return the name of the InferencePool of a variant."""
    return f"{pool}-{variant}"


def variant_weights(text: str) -> dict[str, int]:
    """Return the weights in ANNOTATION_GATEWAY_WEIGHTS by variant; entries that are none, edited by hand, are left out."""
    entries = (entry.partition("=") for entry in text.split(","))
    return {
        name: int(weight)
        for name, _, weight in entries
        if weight.isascii() and weight.isdecimal() and len(weight) <= 3 and int(weight)
    }


def service_url(pool: str, namespace: str, *, secure: bool) -> str:
    """Return the URL of a pool's Service for clients, without a path; `secure`: the pool serves TLS."""
    return f"{'https' if secure else 'http'}://{service_host(pool, namespace)}:{CLIENT_PORT}"


# Labels and annotations.
LABEL_POOL_UID: Final = f"{GROUP}/pool-uid"
"""The label in the selectors of Deployment, Service, budget and `status.selector`; it never changes."""
LABEL_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""On pods of groups, by the controller of LeaderWorkerSets: 0 is the leader."""
LABEL_GROUPS_OF: Final = "leaderworkerset.sigs.k8s.io/name"
"""On the StatefulSets and pods of groups, by the same controller."""
LABEL_POOL: Final = f"{GROUP}/pool"
LABEL_VARIANT: Final = f"{GROUP}/variant"
"""On the InferencePool of a variant and on its pods: name of the variant."""
LABEL_VARIANT_OF: Final = f"{GROUP}/variant-of"
"""On the InferencePool of a variant and on its pods: name of the pool with the variants."""
LABEL_VARIANT_OF_UID: Final = f"{GROUP}/variant-of-uid"
"""On the pods of a variant: UID of the pool with the variants, the only label in the selector of its Service."""
LABEL_GATEWAY: Final = f"{GROUP}/gateway"
"""On the gateway's pods: the only label in the selectors of the Services that lead to it."""
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_APP_PART_OF: Final = "app.kubernetes.io/part-of"
LABEL_APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
ANNOTATION_RESTARTED_AT: Final = f"{GROUP}/restartedAt"
ANNOTATION_TEMPLATE_INPUTS: Final = f"{GROUP}/template-inputs"
"""On the ControllerRevision: hash of the inputs of a pinned template."""
LABEL_REVISION: Final = f"{GROUP}/revision"
"""On pods and their template: name of their ControllerRevision."""
ANNOTATION_NODES: Final = f"{GROUP}/nodes"
"""On pods of groups and their template: `parallelism.nodes`, the number of pods in each group."""
ANNOTATION_APPLIED: Final = f"{GROUP}/applied"
"""On children: hash of the last applied manifest."""
ANNOTATION_REPLICAS: Final = f"{GROUP}/replicas"
"""On the Deployment or LeaderWorkerSet: the replica count that the operator wrote; a different count is from another writer."""
ANNOTATION_WITHOUT_SURGE: Final = f"{GROUP}/without-surge"
"""On the Deployment or LeaderWorkerSet: the revision whose rollout continues by Replace, since the cluster had no room for a surge."""
ANNOTATION_BATCH_REPLICAS: Final = f"{GROUP}/batch-replicas"
"""Replicas of the pool of a variant that only batch work needs; absent without any."""
ANNOTATION_POLICY_DEFAULTS: Final = f"{GROUP}/policy-defaults"
"""On the settings ConfigMap: the policy defaults in force, kept while policies of equal priority conflict."""

ANNOTATION_SCHEME: Final = f"{GROUP}/scheme"
"""On pods with TLS on both ports: `https`, read by scrapers and the operator."""

# The gateway of a namespace.
GATEWAY_NAME: Final = "penstock-gateway"
"""Name of every object of the gateway, and value of LABEL_GATEWAY."""
GATEWAY_UID: Final = "gateway"
"""Value of LABEL_POOL_UID on the gateway's objects: they belong to no single pool, and the operator watches by that label."""
ANNOTATION_GATEWAY_PORT: Final = f"{GROUP}/gateway-port"
"""On a pool's Service: port of the pool's listener in the gateway; present while the gateway has to listen."""
ANNOTATION_GATEWAY_LEFT: Final = f"{GROUP}/gateway-left-at"
"""On a pool's Service: Unix seconds at which it began to select the pods again; the listener closes later."""
ANNOTATION_GATEWAY_HOLD: Final = f"{GROUP}/gateway-hold"
"""On a pool's Service: `penstock_api.hold.HoldLimits`; present while the gateway holds requests that find no pod."""
ANNOTATION_GATEWAY_WEIGHTS: Final = f"{GROUP}/gateway-weights"
"""On the Service of a pool with variants: weights of their pods, as `a100=100,cpu=12`; present while the gateway has to listen."""
ANNOTATION_GATEWAY_BODY: Final = f"{GROUP}/gateway-body"
"""On a pool's Service: `penstock_api.body_limits.BodyLimits`; present while the gateway has to listen, if the pool sets a limit."""
GATEWAY_STATUS_PORT: Final = 8091
BATCHES_NAME: Final = "penstock-batches"
BATCHES_STATUS_PORT: Final = 8091
PATH_BATCHES_STATUS: Final = "/status"
"""Port of the gateway's controller: health, metrics and status."""
GATEWAY_READINESS_PORT: Final = 8090
"""Port of Envoy's own `/readyz`."""
GATEWAY_PORTS: Final = (20_000, 29_999)
"""First and last port of the pools' listeners in a gateway."""
PATH_GATEWAY_STATUS: Final = "/status"
PATH_GATEWAY_HELD: Final = "/held"
"""Requests that a gateway's pod holds; with `?known=VERSION` the answer waits for a change."""

# Ports of a pool's pods.
CLIENT_PORT: Final = 8000
CLIENT_PORT_NAME: Final = "http"
CLUSTER_PORT: Final = 8001
ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - a pod serves its own network namespace
CLUSTER_PORT_NAME: Final = "control"

# Files and environment of a pod (written by the operator's builders, read by the runtime's config).
SETTINGS_FOLDER: Final = "/etc/penstock"
"""Mount point of the pool's settings ConfigMap."""
LIMITS_FILE: Final = "limits.json"
"""A key of that ConfigMap: a `LimitsUpdate` in JSON."""
CONTROL_KEYS_FILE: Final = "control-keys.json"
"""A key of that ConfigMap: `{kid: base64 of the raw 32-byte Ed25519 public key}`."""
TLS_FOLDER: Final = "/etc/penstock-tls"
"""Mount point of the Secret of `spec.tls`."""
API_KEYS_FOLDER: Final = "/etc/penstock-keys"
"""Mount point of the Secret of `spec.apiKeys`, with its key as API_KEYS_FILE."""
API_KEYS_FILE: Final = "keys.json"
TERMINATION_LOG: Final = "/dev/termination-log"

ENV_POOL: Final = "PENSTOCK_POOL"
ENV_NAMESPACE: Final = "PENSTOCK_NAMESPACE"
ENV_POD_NAME: Final = "PENSTOCK_POD_NAME"
ENV_POD_UID: Final = "PENSTOCK_POD_UID"
ENV_MODEL: Final = "PENSTOCK_MODEL"
"""`ModelSpec` in JSON, with the name set; a claim's path is relative to MODEL_FOLDER."""
ENV_DRAIN_DEADLINE_SECONDS: Final = "PENSTOCK_DRAIN_DEADLINE_SECONDS"
ENV_PEER_URL: Final = "PENSTOCK_PEER_URL"
"""URL of the pool, to which a draining pod hands over its generations."""
ENV_RELAY_SECONDS: Final = "PENSTOCK_RELAY_SECONDS"
ENV_API_KEYS_FILE: Final = "PENSTOCK_API_KEYS_FILE"
"""File of the API keys in JSON; set if clients need a key."""
ENV_TLS_FOLDER: Final = "PENSTOCK_TLS_FOLDER"
"""Folder of `tls.crt` and `tls.key`; set if both ports use TLS."""
ENV_DTYPE: Final = "PENSTOCK_DTYPE"
ENV_LOG_LEVEL: Final = "PENSTOCK_LOG_LEVEL"
ENV_LOG_FORMAT: Final = "PENSTOCK_LOG_FORMAT"
ENV_ACCESS_LOG: Final = "PENSTOCK_ACCESS_LOG"
ENV_MAX_BODY_BYTES: Final = "PENSTOCK_MAX_BODY_BYTES"
ENV_MAX_HELD_BYTES: Final = "PENSTOCK_MAX_HELD_BYTES"
ENV_BODY_TIMEOUT_SECONDS: Final = "PENSTOCK_BODY_TIMEOUT_SECONDS"
ENV_CONNECTION_AGE_SECONDS: Final = "PENSTOCK_CONNECTION_AGE_SECONDS"
ENV_CLIENT_METRICS: Final = "PENSTOCK_CLIENT_METRICS"
ENV_TRUSTED_PROXIES: Final = "PENSTOCK_TRUSTED_PROXIES"
ENV_MAX_MODEL_LEN: Final = "PENSTOCK_MAX_MODEL_LEN"
ENV_CACHE_BYTES: Final = "PENSTOCK_CACHE_BYTES"
ENV_CACHE_PERCENT: Final = "PENSTOCK_CACHE_PERCENT"
ENV_HOST_CACHE_BYTES: Final = "PENSTOCK_HOST_CACHE_BYTES"
ENV_HOST: Final = "PENSTOCK_HOST"
ENV_CLUSTER_PORT: Final = "PENSTOCK_CLUSTER_PORT"
ENV_MAX_RUNNING: Final = "PENSTOCK_MAX_RUNNING"
ENV_TENSOR_PARALLEL: Final = "PENSTOCK_TENSOR_PARALLEL"
ENV_PIPELINE_PARALLEL: Final = "PENSTOCK_PIPELINE_PARALLEL"
ENV_DATA_PARALLEL: Final = "PENSTOCK_DATA_PARALLEL"
ENV_MAX_RUN_SECONDS: Final = "PENSTOCK_MAX_RUN_SECONDS"
ENV_COMPUTE_BACKEND: Final = "PENSTOCK_COMPUTE_BACKEND"
MODEL_FOLDER: Final = "/models"
"""Mount point of a model's volume: read-only, or writable if it is the cache of a downloaded model."""
S3_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
S3_SESSION_TOKEN: Final = "AWS_SESSION_TOKEN"  # noqa: S105  a name
"""Keys of an S3 source's Secret, and names of their environment variables; the token is optional."""

# Control API and probes, on the cluster port.
PATH_STATE: Final = "/control/v1/state"
PATH_LIMITS: Final = "/control/v1/limits"
PATH_HEALTHZ: Final = "/healthz"
PATH_READYZ: Final = "/readyz"
QUERY_WAIT_SECONDS: Final = "waitSeconds"
"""Parameter of `/readyz`: the time for which a pod that loads its model may delay the response."""
PATH_METRICS: Final = "/metrics"

PATH_HANDOVER: Final = "/handover/v1/generations"
"""On the client port: continues a generation of another pod, in the name of its client."""

# Headers of the runtime's responses, on the client port.
HEADER_POD: Final = "X-Penstock-Pod"
HEADER_GATEWAY: Final = "x-penstock-gateway"
"""On requests that a gateway sends: it balances requests, so that the pod need not end the connection for its age."""
HEADER_TENANT: Final = "X-Penstock-Tenant"
"""On answers of pods with API keys: the tenant of the request's key, percent-encoded. On requests: the tenant that a
trusted proxy names."""
"""Name of the pod that responded, from which a load generator measures the distribution."""

BATCH_PRIORITY: Final = 11
"""Priority of work that can wait: it ranks below every other request, one without a priority included, for as long as it waits."""

ENGINE_DIED: Final = "the engine has died"
"""Begins the error of each request that an engine had, computed or queued, when it died or got stuck, as no other error does."""

# Metrics of the runtime (histograms end in `_bucket`, `_sum`, `_count` on the wire).
METRIC_REQUESTS_WAITING: Final = "penstock_requests_waiting"
METRIC_REQUESTS_RUNNING: Final = "penstock_requests_running"
METRIC_REQUESTS_RECEIVED: Final = "penstock_requests_received_total"
METRIC_ROWS_RECEIVED: Final = "penstock_rows_received_total"
METRIC_SERVED: Final = "penstock_served_total"
"""Label work: `interactive` | `batch`. Rows of completed requests, or generated tokens."""
METRIC_REQUESTS: Final = "penstock_requests_total"  # labels outcome, work
METRIC_REQUESTS_REFUSED: Final = "penstock_requests_refused_total"  # labels reason, work
CLIENT_FAULTS: Final = frozenset(
    {
        "BadInput",
        "BatchWorkWaits",
        "BodyTimeout",
        "OtherModel",
        "RateExceeded",
        "TooLarge",
        "Unauthenticated",
        "UnknownModel",
        "UnsupportedCoding",
    }
)
"""Reasons of rejections that no objective counts: those caused by the client, and of batch work, which comes back."""
METRIC_REQUEST_DURATION: Final = "penstock_request_duration_seconds"
METRIC_TIME_IN_QUEUE: Final = "penstock_time_in_queue_seconds"
METRIC_BATCH_SIZE: Final = "penstock_batch_size"
METRIC_BATCH_DURATION: Final = "penstock_batch_duration_seconds"
METRIC_BATCH_CAP: Final = "penstock_batch_cap"
METRIC_BATCH_CAP_BOUND: Final = "penstock_batch_cap_bound"
"""Largest cap that the pod's memory allows (its `effectiveMax`)."""
METRIC_BATCH_SURPLUS: Final = "penstock_batch_surplus"
"""Number of generations that run above a lowered cap until they finish (the state's `surplus`)."""
METRIC_LIMITS_GENERATION: Final = "penstock_limits_generation"
METRIC_OUT_OF_MEMORY_SPLITS: Final = "penstock_out_of_memory_splits_total"
METRIC_POD_INFO: Final = "penstock_pod_info"  # label uid
METRIC_GPU_UTILIZATION: Final = "penstock_gpu_utilization_ratio"
"""Label source: NVML | EngineBusyShare."""
METRIC_GPU_MEMORY: Final = "penstock_gpu_memory_bytes"  # label kind: used | total
METRIC_TIME_TO_FIRST_TOKEN: Final = "penstock_time_to_first_token_seconds"  # noqa: S105  a name
METRIC_TIME_PER_OUTPUT_TOKEN: Final = "penstock_time_per_output_token_seconds"  # noqa: S105  a name
METRIC_TOKENS: Final = "penstock_tokens_total"  # label phase: prefill | decode
METRIC_PROMPT_TOKENS_RECEIVED: Final = "penstock_prompt_tokens_received_total"
METRIC_PREFIX_CACHE_TOKENS: Final = "penstock_prefix_cache_tokens_total"
"""Label result: `asked` | `hit`. Prompt tokens that were looked up, and those found in the cache."""
METRIC_HANDOVERS: Final = "penstock_handovers_total"
METRIC_PREEMPTIONS: Final = "penstock_preemptions_total"
METRIC_KV_CACHE_USAGE: Final = "penstock_kv_cache_usage_ratio"
METRIC_GENERATION_CURVE: Final = "penstock_generation_curve_total"
"""Labels epoch, term: sums over steps of the products of x = (1, p/256, d, k/4096, t), as `p*t`."""
GENERATION_TERMS: Final = tuple(
    "*".join(pair) for pair in combinations_with_replacement(("1", "p", "d", "k", "t"), 2)
)
"""Products in order: the upper triangle, row by row."""
METRIC_CURVE_BATCHES: Final = "penstock_curve_batches_total"  # sum of 1
METRIC_CURVE_COST: Final = "penstock_curve_cost_units_total"  # sum of b
METRIC_CURVE_COST_SQUARED: Final = "penstock_curve_cost_units_squared_total"  # sum of b^2
METRIC_CURVE_SECONDS: Final = "penstock_curve_seconds_total"  # sum of t
METRIC_CURVE_COST_SECONDS: Final = "penstock_curve_cost_unit_seconds_total"  # sum of b*t
METRIC_CURVE_SECONDS_SQUARED: Final = "penstock_curve_seconds_squared_total"  # sum of t^2
CURVE_METRICS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "batches": METRIC_CURVE_BATCHES,
        "cost_units": METRIC_CURVE_COST,
        "cost_units_squared": METRIC_CURVE_COST_SQUARED,
        "seconds": METRIC_CURVE_SECONDS,
        "cost_unit_seconds": METRIC_CURVE_COST_SECONDS,
        "seconds_squared": METRIC_CURVE_SECONDS_SQUARED,
    }
)
"""Counter of each sum of `limits.CurveSums`."""

METRIC_CURVE_BY_SIZE: Final = "penstock_curve_by_size_total"
"""Labels size (the largest of a class of `CurveSums.by_size`), term (`SIZE_TERMS`)."""
SIZE_TERMS: Final = ("batches", "cost_units", "seconds")

# Aliases that the Gateway API's endpoint picker reads.
METRIC_VLLM_WAITING: Final = "vllm:num_requests_waiting"
METRIC_VLLM_RUNNING: Final = "vllm:num_requests_running"
METRIC_VLLM_CACHE: Final = "vllm:kv_cache_usage_perc"

# Objects of the operator in its own namespace.
SIGNING_KEY_SECRET: Final = "penstock-control-signing-key"  # noqa: S105  its name, not its value
RECORD_PREFIX: Final = "penstock-settings-"
"""Prefix, followed by a pool's UID, of ConfigMaps with the last settings that met the objective."""
RECORD_FILE: Final = "record.json"
LEASE_NAME: Final = "penstock-operator"
NAMESPACE_LEASE_NAME: Final = "penstock-pools"
"""Lease in every namespace that an installation of scope Namespaces serves."""
