"""Settings of the runtime container of any task: `RuntimeSpec`; and of pools that generate text: `GenerationSpec`."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from penstock_api.base import ApiModel
from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_api.types.fields import ATOMIC_LIST, Cidr, Image, quantity, rule, rules
from penstock_api.types.pod_template.container import ImagePullPolicy


class Switch(StrEnum):
    """Whether something is done."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class LogLevel(StrEnum):
    """Minimum severity that is logged."""

    DEBUG = "Debug"
    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


class LogFormat(StrEnum):
    """Format of the log."""

    JSON = "Json"
    TEXT = "Text"


class RuntimeLog(ApiModel):
    """Log of the pods."""

    level: LogLevel | None = None
    """Minimum severity that is logged; defaults to Info."""
    format: LogFormat | None = None
    """Format of a line; defaults to `Json`."""
    access: Switch | None = None
    """Whether each request has a line; defaults to Disabled."""


class RuntimeHttp(ApiModel):
    """Requests and connections of the clients."""

    max_body_size: Annotated[int | str, quantity("maxBodySize", "1Ki", "1Ti")] | None = None
    """Size limit of one request after decompression, above which the pod responds 413; defaults to 64Mi."""
    max_request_memory: Annotated[int | str, quantity("maxRequestMemory", "1Ki", "1Pi")] | None = (
        None
    )
    """Memory of all requests per pod, above which the pod responds 429, or 413 to one that exceeds it alone; defaults to 512Mi. Encoding a text takes 230 bytes per byte."""
    body_timeout_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Time for a client to send its body, and after which one that reads nothing of a large answer is disconnected; defaults to 60."""
    connection_age_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Mean age at which a client's connection is closed, so that clients reach new replicas; defaults to 20. Those of a gateway stay open."""
    metrics: Switch | None = None
    """Whether the client port serves /metrics too; defaults to Enabled."""
    trusted_proxies: (
        Annotated[tuple[Cidr, ...], Field(max_length=32, json_schema_extra=ATOMIC_LIST)] | None
    ) = None
    """Networks whose requests may name a tenant and a priority in headers, where clients need no key; defaults to none."""


class RuntimeSpec(ApiModel):
    """The runtime container."""

    image: Image | None = None
    """Image; defaults to the operator's default at the pool's first render, which is then pinned."""
    image_pull_policy: ImagePullPolicy | None = None
    """As core/v1; defaults to the operator's setting."""
    log: RuntimeLog | None = None
    """Log of the pods."""
    http: RuntimeHttp | None = None
    """Requests and connections of the clients."""


class KvCache(ApiModel):
    """Memory for the keys and values of sequences."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!(has(self.size) && has(self.freeMemoryPercent))",
                "kvCache sets both size %s and freeMemoryPercent %s: keep one",
                "self.size",
                "self.freeMemoryPercent",
            )
        )
    )
    size: Annotated[int | str, quantity("kvCache.size", "1Ki", "1Pi")] | None = None
    """Size of the cache; defaults to a share of the memory that is free after loading."""
    free_memory_percent: Annotated[int, Field(ge=1, le=95)] | None = None
    """Share of the memory that is free after loading; defaults to 85 on a GPU and 25 on a CPU."""
    host_size: Annotated[int | str, quantity("kvCache.hostSize", "0", "1Pi")] | None = None
    """Host memory for blocks of preempted sequences; defaults to 0: they are computed again."""


class BackendName(StrEnum):
    """Backend that runs the forward pass."""

    AUTO = "Auto"
    OPENVINO = "OpenVINO"
    TORCH = "Torch"


class GenerationSpec(ApiModel):
    """Settings of text generation that are fixed at the start of a pod."""

    context_length: Annotated[int, Field(ge=2, le=2**31 - 1)] | None = None
    """Largest number of tokens of a sequence, prompt and answer together; defaults to the model's own, which it cannot exceed."""
    kv_cache: KvCache | None = None
    """Memory for the keys and values of sequences."""
    max_sequences: Annotated[int, Field(ge=1, le=MAX_BATCH_SIZE)] | None = None
    """Largest batch cap that a pod allows, regardless of `batching.size`; defaults to 256."""
    max_run_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Device time after which an answer ends for its length; defaults to unlimited."""
    compute_backend: BackendName | None = None
    """Backend of the forward pass; Auto, the default, selects the faster of OpenVINO and Torch on a CPU, and Torch elsewhere."""
