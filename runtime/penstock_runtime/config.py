"""The only reader of the environment: one frozen `RuntimeConfig`, read once, unknown names refused.

In a pod the operator sets the names of `penstock_api.names`; the others are for developers and tests.
`PENSTOCK_MODEL` alone is enough to run `python -m penstock_runtime` on a laptop.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from penstock_api import names
from penstock_api.limits import MAX_BATCH_SIZE
from penstock_api.types.model import ModelSpec
from penstock_runtime.engine.continuous.options import Compute, DType, StepOptions
from penstock_runtime.engine.placement import Placement
from penstock_runtime.errors import ConfigError

Network = IPv4Network | IPv6Network

E = TypeVar("E", bound=StrEnum)

_SERVICE_LINK: Final = re.compile(
    r"^PENSTOCK(_.*)?_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""What the kubelet injects for Services whose names begin with `penstock`; not ours to refuse."""


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Everything that the environment decides. Durations are seconds, sizes are bytes."""

    model: ModelSpec
    pool: str = "local"
    """Whose pod this is; named where clients are told who owns the model."""
    namespace: str = "default"
    pod_name: str = "local"
    """Sent back in `X-Penstock-Pod`."""
    pod_uid: str = ""
    """What control tokens must be addressed to; empty outside a cluster."""
    model_folder: Path = field(default_factory=lambda: Path(names.MODEL_FOLDER))
    """Where a model's volume is mounted: its files, or the cache that they are fetched into."""
    fetched_folder: Path = field(default_factory=lambda: Path("/tmp/penstock-model"))  # noqa: S108 - the pod's own
    """A link to a fetched model's files; below /tmp, which every pod may write."""
    placement: Placement | None = None
    """Where the engine runs; None: by cores and devices (docs/design/runtime.md#topology)."""
    compile: bool = False
    """Whether torch.compile is used; it needs a compiler in the image and lengthens the start."""
    settings_folder: Path = field(default_factory=lambda: Path(names.SETTINGS_FOLDER))
    """Holds the limits and the public keys of the control API; both may be absent."""
    host: str = "0.0.0.0"  # noqa: S104 - a pod serves its own network namespace
    client_port: int = names.CLIENT_PORT
    cluster_port: int = names.CLUSTER_PORT
    drain_deadline_seconds: float = 120.0
    """From SIGTERM to the last answer; the built-in of `spec.drain.deadlineSeconds` (docs/design/design.md#precedence)."""
    accept_seconds: float = 5.0
    """How long a pod that was told to stop goes on accepting: the removal of endpoints lags."""
    max_body_bytes: int = 64 * 2**20
    """Of one request, after decompression; aiohttp's own default of 1 MiB is too little for tensors."""
    max_held_bytes: int = 512 * 2**20
    """Of all requests that are read or wait, as text or tensors: `maxQueueDepth` counts requests, memory does not."""
    body_seconds: float = 60.0
    """A client that has not sent its body by then is answered 408 and gives its credit back; one that has not read a large
    answer by then is cut off."""
    keep_alive_seconds: float = 75.0
    stuck_seconds: float = 30.0
    """An engine is stuck when a step has made no progress for so long and for 20 times its prediction, or when it shows
    no sign of life, or makes no step, while it idles or requests wait: the pod fails what it holds and exits."""
    connection_age_seconds: float = 20.0
    """Mean age at which a client connection is closed, so that new replicas are found (docs/design/control-law.md#connection-balance)."""
    connection_requests: int = 1000
    fast_lane: bool = True
    """Whether plain inference requests take the short way; off, all are aiohttp's, for comparison."""
    client_metrics: bool = True
    """Whether port 8000 serves `/metrics` too."""
    tls_folder: Path | None = None
    """Holds the `tls.crt` and `tls.key` that both ports are served with, read again when they change; None: plain HTTP."""
    insecure_control: bool = False
    """Obey control calls without a token: for local development only."""
    api_keys_file: Path | None = None
    """`ApiKeys` of `serving.auth.api_keys` in JSON, from a Secret, read again when it changes; None: no key is asked for."""
    trusted_proxies: tuple[Network, ...] = ()
    """Who may name a tenant and a priority in headers where no keys are asked for."""
    generation: StepOptions = field(default_factory=StepOptions)
    """How a generative model is loaded."""
    max_run_seconds: float | None = None
    """The most device time of one answer; None: as much as its tokens take."""
    access_log: bool = False
    log_format: str = "text"
    """In a pod `json`, unless the environment says otherwise."""
    log_level: str = "INFO"
    termination_log: Path = field(default_factory=lambda: Path(names.TERMINATION_LOG))

    @property
    def model_name(self) -> str:
        """The name that clients use."""
        return self.model.name or self.pool

    @property
    def files_folder(self) -> Path:
        """Where the model's files are, once they are fetched; a source's path is relative to it."""
        fetched = self.model.source.fetched is not None
        return self.fetched_folder if fetched else self.model_folder

    @property
    def limits_file(self) -> Path:
        """A `LimitsUpdate` in JSON."""
        return self.settings_folder / names.LIMITS_FILE

    @property
    def control_keys_file(self) -> Path:
        """Public keys by key id, in JSON."""
        return self.settings_folder / names.CONTROL_KEYS_FILE

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "RuntimeConfig":
        """Return the configuration that `environ` spells.

        Raises:
            ConfigError: an unknown `PENSTOCK_` name, a missing model, or a value that does not parse.
        """
        ours = {
            name: value
            for name, value in environ.items()
            if name.startswith("PENSTOCK_") and not _is_service_link(name, value)
        }
        unknown = sorted(ours.keys() - _READERS.keys())
        if unknown:
            raise ConfigError(
                f"environment variable {unknown[0]} is not known to this version: unset it"
                f" (known: {', '.join(sorted(_READERS))})"
            )
        if names.ENV_MODEL not in ours:
            raise ConfigError(f"{names.ENV_MODEL} is not set: give the model's spec in JSON")
        ours.setdefault("PENSTOCK_LOG_FORMAT", "json" if names.ENV_POD_UID in ours else "text")
        read = dict(_read(name, value) for name, value in ours.items())
        options = {name: read.pop(name) for name in _STEP_OPTIONS & read.keys()}
        return cls(**read, generation=StepOptions(**options))


def _is_service_link(name: str, value: str) -> bool:
    link = _SERVICE_LINK.match(name) is not None
    return link and (name not in _READERS or value.startswith(("tcp://", "udp://", "sctp://")))


def _read(name: str, value: str) -> tuple[str, Any]:
    attribute, parse = _READERS[name]
    try:
        return attribute, parse(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{name}: {where or 'the value'}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"{name}={value!r}: {error}") from error


def _boolean(value: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if value.lower() not in known:
        raise ValueError("must be true or false")
    return known[value.lower()]


def _at_least(least: float) -> Callable[[str], float]:
    def parse(value: str) -> float:
        number = float(value)
        if not least <= number < float("inf"):
            raise ValueError(f"must be a number of at least {least:g}")
        return number

    return parse


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        number = int(value)
        if not least <= number <= most:
            raise ValueError(f"must be between {least} and {most}")
        return number

    return parse


def _one_of(*known: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        found = {one.lower(): one for one in known}.get(value.lower())
        if found is None:
            raise ValueError(f"must be one of {', '.join(known)}")
        return found

    return parse


def _member(kind: type[E]) -> Callable[[str], E]:
    parse = _one_of(*kind)
    return lambda value: kind(parse(value))


def _placement(value: str) -> Placement | None:
    found = _one_of("Auto", *Placement)(value)
    return None if found == "Auto" else Placement(found)


def _networks(value: str) -> tuple[Network, ...]:
    return tuple(ip_network(one.strip()) for one in value.split(",") if one.strip())


_STEP_OPTIONS: Final = frozenset(
    {
        "compute",
        "dtype",
        "cache_bytes",
        "host_cache_bytes",
        "max_model_len",
        "max_running",
        "batch_invariant",
        "depth",
    }
)
"""Attributes of `StepOptions`; the readers below fill them by their names."""

_READERS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    names.ENV_MODEL: ("model", ModelSpec.model_validate_json),
    names.ENV_POOL: ("pool", str),
    names.ENV_NAMESPACE: ("namespace", str),
    names.ENV_POD_NAME: ("pod_name", str),
    names.ENV_POD_UID: ("pod_uid", str),
    names.ENV_DRAIN_DEADLINE_SECONDS: ("drain_deadline_seconds", _at_least(0)),
    names.ENV_TLS_FOLDER: ("tls_folder", Path),
    "PENSTOCK_MODEL_FOLDER": ("model_folder", Path),
    "PENSTOCK_FETCHED_FOLDER": ("fetched_folder", Path),
    "PENSTOCK_PLACEMENT": ("placement", _placement),
    "PENSTOCK_COMPILE": ("compile", _boolean),
    "PENSTOCK_SETTINGS_FOLDER": ("settings_folder", Path),
    "PENSTOCK_HOST": ("host", str),
    "PENSTOCK_CLIENT_PORT": ("client_port", _whole(0, 65_535)),
    "PENSTOCK_CLUSTER_PORT": ("cluster_port", _whole(0, 65_535)),
    "PENSTOCK_ACCEPT_SECONDS": ("accept_seconds", _at_least(0)),
    "PENSTOCK_MAX_BODY_BYTES": ("max_body_bytes", _whole(1024, 2**40)),
    "PENSTOCK_MAX_HELD_BYTES": ("max_held_bytes", _whole(1024, 2**50)),
    "PENSTOCK_BODY_SECONDS": ("body_seconds", _at_least(0.1)),
    "PENSTOCK_STUCK_SECONDS": ("stuck_seconds", _at_least(3)),
    "PENSTOCK_KEEP_ALIVE_SECONDS": ("keep_alive_seconds", _at_least(1)),
    "PENSTOCK_CONNECTION_AGE_SECONDS": ("connection_age_seconds", _at_least(0.1)),
    "PENSTOCK_CONNECTION_REQUESTS": ("connection_requests", _whole(1, 2**31)),
    "PENSTOCK_FAST_LANE": ("fast_lane", _boolean),
    "PENSTOCK_CLIENT_METRICS": ("client_metrics", _boolean),
    "PENSTOCK_INSECURE_CONTROL": ("insecure_control", _boolean),
    names.ENV_API_KEYS_FILE: ("api_keys_file", Path),
    "PENSTOCK_TRUSTED_PROXIES": ("trusted_proxies", _networks),
    "PENSTOCK_STEP": ("compute", _member(Compute)),
    "PENSTOCK_DTYPE": ("dtype", _member(DType)),
    "PENSTOCK_CACHE_BYTES": ("cache_bytes", _whole(1, 2**50)),
    "PENSTOCK_HOST_CACHE_BYTES": ("host_cache_bytes", _whole(0, 2**50)),
    "PENSTOCK_MAX_MODEL_LEN": ("max_model_len", _whole(2, 2**31)),
    "PENSTOCK_MAX_RUNNING": ("max_running", _whole(1, MAX_BATCH_SIZE)),
    "PENSTOCK_BATCH_INVARIANT": ("batch_invariant", _boolean),
    "PENSTOCK_STEP_DEPTH": ("depth", _whole(0, 1)),
    "PENSTOCK_MAX_RUN_SECONDS": ("max_run_seconds", _at_least(0.001)),
    "PENSTOCK_ACCESS_LOG": ("access_log", _boolean),
    "PENSTOCK_LOG_FORMAT": ("log_format", _one_of("json", "text")),
    "PENSTOCK_LOG_LEVEL": ("log_level", _one_of("DEBUG", "INFO", "WARNING", "ERROR")),
    "PENSTOCK_TERMINATION_LOG": ("termination_log", Path),
}
