"""Every name that crosses a process boundary, each once."""

from collections.abc import Mapping
from itertools import combinations_with_replacement
from types import MappingProxyType
from typing import Final

GROUP: Final = "penstock.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

POOL_KIND: Final = "InferencePool"
POOL_PLURAL: Final = "inferencepools"
POOL_SHORT: Final = "pspool"
POLICY_KIND: Final = "InferencePolicy"
POLICY_PLURAL: Final = "inferencepolicies"
POLICY_SHORT: Final = "pspolicy"

FIELD_MANAGER: Final = "penstock"
CHILD_SUFFIX: Final = "-penstock"
"""Children are called `<pool>-penstock`, except the Service, which is called `<pool>`."""
MEMORY_SUFFIX: Final = "-penstock-memory"
"""Of the ConfigMap in which the control law's memory outlives the operator; no pod mounts it."""

# Labels and annotations.
LABEL_POOL_UID: Final = f"{GROUP}/pool-uid"
"""The one label that Deployment, Service, budget and `status.selector` select on, forever."""
LABEL_POOL: Final = f"{GROUP}/pool"
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_APP_PART_OF: Final = "app.kubernetes.io/part-of"
LABEL_APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
ANNOTATION_RESTARTED_AT: Final = f"{GROUP}/restartedAt"
ANNOTATION_TEMPLATE_INPUTS: Final = f"{GROUP}/template-inputs"
"""Hash of the inputs that a pinned template was rendered from (on the ControllerRevision)."""
LABEL_REVISION: Final = f"{GROUP}/revision"
"""On pods and their template: the name of the ControllerRevision it came from."""
ANNOTATION_APPLIED: Final = f"{GROUP}/applied"
"""On children: hash of the manifest they were last written from."""
ANNOTATION_REPLICAS: Final = f"{GROUP}/replicas"
"""On the Deployment: the count that the operator wrote with it; another count is another's write."""
ANNOTATION_WITHOUT_SURGE: Final = f"{GROUP}/without-surge"
"""On the Deployment: the revision whose rollout goes on by replacing, since there was no room for a surge."""
ANNOTATION_POLICY_DEFAULTS: Final = f"{GROUP}/policy-defaults"
"""On the settings ConfigMap: the policy defaults in force, kept while equal policies disagree."""

ANNOTATION_SCHEME: Final = f"{GROUP}/scheme"
"""On pods that speak TLS on both ports: `https`. Whoever scrapes or controls them goes by it."""

# Ports of a pool's pods.
CLIENT_PORT: Final = 8000
CLIENT_PORT_NAME: Final = "http"
CLUSTER_PORT: Final = 8001
CLUSTER_PORT_NAME: Final = "control"

# The pod's files and environment (written by the operator's builders, read by the runtime's config).
SETTINGS_FOLDER: Final = "/etc/penstock"
"""Where the pool's settings ConfigMap is mounted."""
LIMITS_FILE: Final = "limits.json"
"""A key of that ConfigMap: a `LimitsUpdate` in JSON."""
CONTROL_KEYS_FILE: Final = "control-keys.json"
"""A key of that ConfigMap: `{kid: base64 of the raw 32-byte Ed25519 public key}`."""
TLS_FOLDER: Final = "/etc/penstock-tls"
"""Where the Secret of `spec.tls` is mounted."""
API_KEYS_FOLDER: Final = "/etc/penstock-keys"
"""Where the Secret of `spec.apiKeys` is mounted, its key as API_KEYS_FILE."""
API_KEYS_FILE: Final = "keys.json"
TERMINATION_LOG: Final = "/dev/termination-log"

ENV_POOL: Final = "PENSTOCK_POOL"
ENV_NAMESPACE: Final = "PENSTOCK_NAMESPACE"
ENV_POD_NAME: Final = "PENSTOCK_POD_NAME"
ENV_POD_UID: Final = "PENSTOCK_POD_UID"
ENV_MODEL: Final = "PENSTOCK_MODEL"
"""`ModelSpec` in JSON, with the name filled in; a claim's path stays relative to MODEL_FOLDER."""
ENV_DRAIN_DEADLINE_SECONDS: Final = "PENSTOCK_DRAIN_DEADLINE_SECONDS"
ENV_API_KEYS_FILE: Final = "PENSTOCK_API_KEYS_FILE"
"""Set where clients must show a key: the keys in JSON."""
ENV_TLS_FOLDER: Final = "PENSTOCK_TLS_FOLDER"
"""Set where both ports speak TLS: holds `tls.crt` and `tls.key`."""
MODEL_FOLDER: Final = "/models"
"""Where a model's volume is mounted: read-only, or for writing where it is the cache of a fetched model."""
S3_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
S3_SESSION_TOKEN: Final = "AWS_SESSION_TOKEN"  # noqa: S105  a name
"""Keys of an S3 source's Secret, and the variables that they become; the token may be absent."""

# Control API and probes, on the cluster port.
PATH_STATE: Final = "/control/v1/state"
PATH_LIMITS: Final = "/control/v1/limits"
PATH_HEALTHZ: Final = "/healthz"
PATH_READYZ: Final = "/readyz"
PATH_METRICS: Final = "/metrics"

# Headers of the runtime's answers, on the client port.
HEADER_POD: Final = "X-Penstock-Pod"
"""Name of the pod that answered: what a load generator counts shares by."""

# Metrics of the runtime (histograms end in `_bucket`, `_sum`, `_count` on the wire).
METRIC_REQUESTS_WAITING: Final = "penstock_requests_waiting"
METRIC_REQUESTS_RUNNING: Final = "penstock_requests_running"
METRIC_REQUESTS_RECEIVED: Final = "penstock_requests_received_total"
METRIC_ROWS_RECEIVED: Final = "penstock_rows_received_total"
METRIC_REQUESTS: Final = "penstock_requests_total"  # label outcome
METRIC_REQUESTS_REFUSED: Final = "penstock_requests_refused_total"  # label reason
CLIENT_FAULTS: Final = frozenset(
    {"BadInput", "UnknownModel", "BodyTimeout", "TooLarge", "UnsupportedCoding"}
)
"""Reasons of refusals that no capacity would have avoided: they count in no objective."""
METRIC_REQUEST_DURATION: Final = "penstock_request_duration_seconds"
METRIC_TIME_IN_QUEUE: Final = "penstock_time_in_queue_seconds"
METRIC_BATCH_SIZE: Final = "penstock_batch_size"
METRIC_BATCH_DURATION: Final = "penstock_batch_duration_seconds"
METRIC_BATCH_CAP: Final = "penstock_batch_cap"
METRIC_BATCH_CAP_BOUND: Final = "penstock_batch_cap_bound"
"""The largest cap that this pod's memory allows (its `effectiveMax`)."""
METRIC_BATCH_SURPLUS: Final = "penstock_batch_surplus"
"""How many generations run above a lowered cap, until they finish (the state's `surplus`)."""
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
"""Label result: asked | hit. Prompt tokens that were looked up, and those that were found."""
METRIC_PREEMPTIONS: Final = "penstock_preemptions_total"
METRIC_KV_CACHE_USAGE: Final = "penstock_kv_cache_usage_ratio"
METRIC_GENERATION_CURVE: Final = "penstock_generation_curve_total"
"""Labels epoch, term: sums over steps of the products of x = (1, p/256, d, k/4096, t), as `p*t`."""
GENERATION_TERMS: Final = tuple(
    "*".join(pair) for pair in combinations_with_replacement(("1", "p", "d", "k", "t"), 2)
)
"""In order: the upper triangle, row by row."""
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
"""From the sums of `limits.CurveSums` to the counters that tell them."""

# Aliases that the Gateway API's endpoint picker reads.
METRIC_VLLM_WAITING: Final = "vllm:num_requests_waiting"
METRIC_VLLM_RUNNING: Final = "vllm:num_requests_running"
METRIC_VLLM_CACHE: Final = "vllm:kv_cache_usage_perc"

# Environment, files: the operator's own objects in its own namespace.
SIGNING_KEY_SECRET: Final = "penstock-control-signing-key"  # noqa: S105  its name, not its value
RECORD_PREFIX: Final = "penstock-settings-"
"""ConfigMaps named so, with a pool's UID, keep the settings that were found good."""
RECORD_FILE: Final = "record.json"
LEASE_NAME: Final = "penstock-operator"
NAMESPACE_LEASE_NAME: Final = "penstock-pools"
"""In every namespace that an installation of scope Namespaces serves."""
