"""`RuntimeConfig`: the settings of a pod in groups."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from penstock_api import names
from penstock_api.types.model import ModelSpec
from penstock_runtime.engine.continuous.steps.options import DType, StepOptions
from penstock_runtime.engine.placement import Placement, PodSeat

RANKS_STUCK_SECONDS = 8.0
"""`stuck_seconds` of a model that is split over several ranks, unless it is set: a hung rank stops the others in the
middle of a step, and the pod must leave readiness within 10 s."""

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class PodConfig:
    """Identity of the pod."""

    pool: str = "local"
    """Name of the pool; clients see it as the owner of the model."""
    namespace: str = "default"
    name: str = "local"
    """Value of the response header `X-Penstock-Pod`."""
    uid: str = ""
    """Audience of control tokens; empty outside a cluster."""


@dataclass(frozen=True, slots=True)
class FilesConfig:
    """Folders and files of the pod."""

    model_folder: Path = field(default_factory=lambda: Path(names.MODEL_FOLDER))
    """Mount point of a model's volume: its files, or the cache of a fetched model."""
    fetched_folder: Path = field(default_factory=lambda: Path("/tmp/penstock-model"))  # noqa: S108 - the pod's own
    """Link to a fetched model's files; below /tmp, which every pod may write."""
    compiled_folder: Path = field(default_factory=lambda: Path("/tmp/penstock-compiled"))  # noqa: S108 - as above
    """Compiled models that contain code, or whose model is on a read-only volume; only this pod writes it."""
    settings_folder: Path = field(default_factory=lambda: Path(names.SETTINGS_FOLDER))
    """Folder of the limits and the public keys of the control API; both may be absent."""
    termination_log: Path = field(default_factory=lambda: Path(names.TERMINATION_LOG))

    @property
    def limits_file(self) -> Path:
        """A `LimitsUpdate` in JSON."""
        return self.settings_folder / names.LIMITS_FILE

    @property
    def control_keys_file(self) -> Path:
        """Public keys by key id, in JSON."""
        return self.settings_folder / names.CONTROL_KEYS_FILE


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of the engine of every kind of model."""

    placement: Placement | None = None
    """Thread or process of the engine; None: by cores and devices (docs/design/runtime.md#topology)."""
    data_parallel: int = 1
    """Engines of a batch model behind one queue, each a process with one device and the whole model."""
    dtype: DType = DType.AUTO
    """Data type in which a model of texts computes; `generation.step` has it too."""
    compile: bool = False
    """Whether torch.compile is used; it needs a compiler in the image and lengthens the start."""
    stuck_seconds: float = 30.0
    """An engine is stuck when a step has made no progress for this time and for 20 times its prediction, or when the
    engine has no heartbeat, or runs no step while requests wait: the pod fails its requests and exits."""


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Settings of both HTTP ports and their connections."""

    host: str = names.ANY_HOST
    client_port: int = names.CLIENT_PORT
    cluster_port: int = names.CLUSTER_PORT
    tls_folder: Path | None = None
    """Folder of the `tls.crt` and `tls.key` of both ports, read again when they change; None: plain HTTP."""
    max_body_bytes: int = 64 * 2**20
    """Size limit of one request after decompression; aiohttp's own default of 1 MiB is too small for tensors."""
    body_timeout_seconds: float = 60.0
    """Time to send a body, after which the answer is 408; also the time after which the connection of a
    client that reads nothing of a large answer is closed."""
    keep_alive_seconds: float = 75.0
    connection_age_seconds: float = 20.0
    """Mean age at which a client connection is closed, so that clients reach new replicas
    (docs/design/control-law.md#connection-balance)."""
    connection_requests: int | None = None
    """Requests after which a client connection is closed; None: by the device time of a request (`http.connection_age`)."""
    fast_path: bool = True
    """Whether plain inference requests take the fast path; False: aiohttp serves all, for comparison."""
    client_metrics: bool = True
    """Whether port 8000 serves `/metrics` too."""


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Settings of the queue that are fixed for the life of the process."""

    max_held_bytes: int = 512 * 2**20
    """Memory of all requests that are read or wait, as text or tensors; `maxQueueDepth` limits their count only."""


@dataclass(frozen=True, slots=True)
class DrainConfig:
    """Settings of the drain."""

    deadline_seconds: float = 120.0
    """Time from SIGTERM to the last answer; the built-in of `spec.drain.deadlineSeconds` (docs/design/design.md#precedence)."""
    accept_seconds: float = 5.0
    """Time from SIGTERM for which requests are still accepted: the removal of endpoints lags."""
    peer_url: str | None = None
    """Address of the pool, whose other pods continue the generations that do not end by the deadline; None: they fail."""
    relay_seconds: float = 600.0
    """Time after the deadline for which the tokens of such generations are relayed to their clients."""


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """Authentication of clients and of control calls."""

    insecure_control: bool = False
    """Whether control calls need no token: for local development only."""
    api_keys_file: Path | None = None
    """`ApiKeys` of `serving.auth.api_keys` in JSON, from a Secret, read again when it changes; None: clients need no
    key."""
    trusted_proxies: tuple[Network, ...] = ()
    """Networks whose headers may name a tenant and a priority where clients need no key."""


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Settings of generative models."""

    step: StepOptions = field(default_factory=StepOptions)
    max_run_seconds: float | None = None
    """Limit of the device time of one answer; None: unlimited."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of the log."""

    format: str = "text"
    """`json` or `text`; from the environment, `json` is the default in a pod."""
    level: str = "INFO"
    access_log: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Settings of a pod by group. Durations are seconds, sizes are bytes."""

    model: ModelSpec
    pod: PodConfig = field(default_factory=PodConfig)
    group: PodSeat = field(default_factory=PodSeat)
    """Place of the pod among those that the model is split over."""
    files: FilesConfig = field(default_factory=FilesConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    queue: QueueConfig = field(default_factory=QueueConfig)
    drain: DrainConfig = field(default_factory=DrainConfig)
    auth: AuthConfig = field(default_factory=AuthConfig)
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    log: LogConfig = field(default_factory=LogConfig)

    @property
    def model_name(self) -> str:
        """The name that clients use."""
        return self.model.name or self.pod.pool

    @property
    def files_folder(self) -> Path:
        """Folder of the model's files once they are fetched; a source's path is relative to it."""
        fetched = self.model.source.fetched is not None
        return self.files.fetched_folder if fetched else self.files.model_folder

    @property
    def shared_compiled_folder(self) -> Path | None:
        """Folder of compiled models in the cache of a fetched model; None: its volume is not written."""
        fetched = self.model.source.fetched is not None
        return self.files.model_folder / ".penstock" / "compiled" if fetched else None
