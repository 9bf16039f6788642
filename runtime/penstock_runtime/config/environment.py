"""`read_config`: the settings of a pod from the environment, read once; unknown names are errors.

The operator sets the variables of `penstock_api.names` in a pod; the others are for developers and tests. `dtype` of the
model's spec takes precedence over `PENSTOCK_DTYPE`.
`PENSTOCK_MODEL` alone is enough to run `python -m penstock_runtime` on a laptop.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from penstock_api import names
from penstock_api.pod_contract import MAX_BATCH_SIZE, MAX_RANKS
from penstock_api.types.model import ModelSpec, Task
from penstock_runtime.config.pod_group import check_group, pod_group
from penstock_runtime.config.settings import (
    RANKS_STUCK_SECONDS,
    AuthConfig,
    DrainConfig,
    EngineConfig,
    FilesConfig,
    GenerationConfig,
    HttpConfig,
    LogConfig,
    Network,
    PodConfig,
    QueueConfig,
    RuntimeConfig,
)
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.placement import Placement, PodSeat
from penstock_runtime.errors import ConfigError

E = TypeVar("E", bound=StrEnum)

_SERVICE_LINK: Final = re.compile(
    r"^PENSTOCK(_.*)?_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""Variables that the kubelet injects for Services whose names begin with `penstock`; ignored."""


def read_config(environ: Mapping[str, str]) -> RuntimeConfig:
    """Return the settings in `environ`.

    Raises:
        ConfigError: an unknown `PENSTOCK_` name, a missing model, or a value that does not parse.
    """
    ours = {
        name: value
        for name, value in environ.items()
        if name.startswith("PENSTOCK_") and not _is_service_link(name, value)
    }
    _check_names(ours)
    ours.setdefault(names.ENV_LOG_FORMAT, "json" if names.ENV_POD_UID in ours else "text")
    values: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in ours.items():
        reader = _READERS[_ALIASES.get(name, name)]
        values[reader.group][reader.field] = _parse(name, value, reader.parse)
    model: ModelSpec = values[""]["model"]
    if model.dtype is not None:
        values["engine"]["dtype"] = DType(model.dtype.lower())
    _check_engines(model, values["engine"])
    if dtype := values["engine"].get("dtype"):
        _check_dtype(model, dtype)
        values["generation.step"]["dtype"] = dtype
    if step := values.pop("generation.step", None):
        values["generation"]["step"] = StepOptions(**step)
        _apply_ranks(values["generation"]["step"], values["engine"])
    values["group"].update(pod_group(environ))
    groups = {name: group(**values[name]) for name, group in _GROUPS.items()}
    config = RuntimeConfig(**values[""], **groups)
    check_group(config.group, config.model, config.generation.step.ranks)
    return config


def _check_dtype(model: ModelSpec, dtype: DType) -> None:
    """Raise `ConfigError` for int8 of a model that generates text."""
    if dtype is DType.INT8 and model.task is Task.TEXT_GENERATION:
        raise ConfigError(
            "dtype Int8 is for models that do not generate text: set spec.model.dtype to BFloat16"
        )


def _check_engines(model: ModelSpec, engine: Mapping[str, Any]) -> None:
    """Check that several engines can serve `model`.

    Raises:
        ConfigError: it generates text, or the engine is to run in a thread.
    """
    engines = engine.get("data_parallel", 1)
    if engines == 1:
        return
    if model.task is Task.TEXT_GENERATION:
        raise ConfigError(
            f"{names.ENV_DATA_PARALLEL}={engines} is for models that do not generate text: unset it, and use more pods"
        )
    if engine.get("placement") is Placement.THREAD:
        raise ConfigError(
            f"PENSTOCK_PLACEMENT=Thread allows one engine, but {names.ENV_DATA_PARALLEL} is {engines}: unset one of them"
        )


def _apply_ranks(step: StepOptions, engine: dict[str, Any]) -> None:
    """Set the defaults of a model that is split over several processes.

    Raises:
        ConfigError: the engine is to run in a thread, or there are too many ranks.
    """
    if step.ranks == 1:
        return
    parallel = (
        f"{names.ENV_TENSOR_PARALLEL} {step.tensor_parallel}"
        f" and {names.ENV_PIPELINE_PARALLEL} {step.pipeline_parallel}"
    )
    if step.ranks > MAX_RANKS:
        raise ConfigError(
            f"{parallel} make {step.ranks} ranks: lower one of them, so that their product is at most {MAX_RANKS}"
        )
    if engine.get("placement") is Placement.THREAD:
        raise ConfigError(
            f"PENSTOCK_PLACEMENT=Thread allows one rank, but {parallel} make {step.ranks}: unset it, or both of them"
        )
    engine.setdefault("stuck_seconds", RANKS_STUCK_SECONDS)


def _is_service_link(name: str, value: str) -> bool:
    link = _SERVICE_LINK.match(name) is not None
    return link and (name not in _READERS or value.startswith(("tcp://", "udp://", "sctp://")))


def _check_names(ours: Mapping[str, str]) -> None:
    unknown = sorted(ours.keys() - _READERS.keys() - _ALIASES.keys())
    if unknown:
        raise ConfigError(
            f"environment variable {unknown[0]} is not known to this version: unset it"
            f" (known: {', '.join(sorted(_READERS))})"
        )
    for alias, name in _ALIASES.items():
        if alias in ours and name in ours:
            raise ConfigError(f"{alias} is the earlier name of {name}: unset {alias}")
    if names.ENV_MODEL not in ours:
        raise ConfigError(f"{names.ENV_MODEL} is not set: give the model's spec in JSON")


def _parse(name: str, value: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(value)
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


def _at_least(minimum: float) -> Callable[[str], float]:
    def parse(value: str) -> float:
        number = float(value)
        if not minimum <= number < float("inf"):
            raise ValueError(f"must be a number of at least {minimum:g}")
        return number

    return parse


def _integer(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        number = int(value)
        if not minimum <= number <= maximum:
            raise ValueError(f"must be between {minimum} and {maximum}")
        return number

    return parse


def _one_of(*known: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        match = {name.lower(): name for name in known}.get(value.lower())
        if match is None:
            raise ValueError(f"must be one of {', '.join(known)}")
        return match

    return parse


def _member(kind: type[E]) -> Callable[[str], E]:
    parse = _one_of(*kind)
    return lambda value: kind(parse(value))


def _placement(value: str) -> Placement | None:
    name = _one_of("Auto", *Placement)(value)
    return None if name == "Auto" else Placement(name)


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError("must be an http or https URL without a path")
    return value.rstrip("/")


def _networks(value: str) -> tuple[Network, ...]:
    return tuple(ip_network(text.strip()) for text in value.split(",") if text.strip())


_GROUPS: Final[dict[str, Callable[..., Any]]] = {
    "pod": PodConfig,
    "group": PodSeat,
    "files": FilesConfig,
    "engine": EngineConfig,
    "http": HttpConfig,
    "queue": QueueConfig,
    "drain": DrainConfig,
    "auth": AuthConfig,
    "generation": GenerationConfig,
    "log": LogConfig,
}

_ALIASES: Final = {
    "PENSTOCK_STEP": names.ENV_COMPUTE_BACKEND,
    "PENSTOCK_STEP_DEPTH": "PENSTOCK_OVERLAP_SCHEDULING",
    "PENSTOCK_BODY_SECONDS": names.ENV_BODY_TIMEOUT_SECONDS,
}
"""Former names of variables, which are still read."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """How a variable is read: its attribute of `RuntimeConfig`, with dots between, and its parser."""

    attribute: str
    parse: Callable[[str], Any]

    @property
    def group(self) -> str:
        """The attribute of the group; empty for the top level."""
        return self.attribute.rpartition(".")[0]

    @property
    def field(self) -> str:
        """The attribute within its group."""
        return self.attribute.rpartition(".")[2]


_READERS: Final[dict[str, _Reader]] = {
    names.ENV_MODEL: _Reader("model", ModelSpec.model_validate_json),
    names.ENV_POOL: _Reader("pod.pool", str),
    names.ENV_NAMESPACE: _Reader("pod.namespace", str),
    names.ENV_POD_NAME: _Reader("pod.name", str),
    names.ENV_POD_UID: _Reader("pod.uid", str),
    "PENSTOCK_MODEL_FOLDER": _Reader("files.model_folder", Path),
    "PENSTOCK_FETCHED_FOLDER": _Reader("files.fetched_folder", Path),
    "PENSTOCK_COMPILED_FOLDER": _Reader("files.compiled_folder", Path),
    "PENSTOCK_SETTINGS_FOLDER": _Reader("files.settings_folder", Path),
    "PENSTOCK_TERMINATION_LOG": _Reader("files.termination_log", Path),
    "PENSTOCK_PLACEMENT": _Reader("engine.placement", _placement),
    "PENSTOCK_COMPILE": _Reader("engine.compile", _boolean),
    "PENSTOCK_STUCK_SECONDS": _Reader("engine.stuck_seconds", _at_least(3)),
    names.ENV_HOST: _Reader("http.host", str),
    "PENSTOCK_CLIENT_PORT": _Reader("http.client_port", _integer(0, 65_535)),
    names.ENV_CLUSTER_PORT: _Reader("http.cluster_port", _integer(0, 65_535)),
    names.ENV_TLS_FOLDER: _Reader("http.tls_folder", Path),
    names.ENV_MAX_BODY_BYTES: _Reader("http.max_body_bytes", _integer(1024, 2**40)),
    names.ENV_BODY_TIMEOUT_SECONDS: _Reader("http.body_timeout_seconds", _at_least(0.1)),
    "PENSTOCK_KEEP_ALIVE_SECONDS": _Reader("http.keep_alive_seconds", _at_least(1)),
    names.ENV_CONNECTION_AGE_SECONDS: _Reader("http.connection_age_seconds", _at_least(0.1)),
    "PENSTOCK_CONNECTION_REQUESTS": _Reader("http.connection_requests", _integer(1, 2**31)),
    "PENSTOCK_FAST_LANE": _Reader("http.fast_path", _boolean),
    names.ENV_CLIENT_METRICS: _Reader("http.client_metrics", _boolean),
    names.ENV_MAX_HELD_BYTES: _Reader("queue.max_held_bytes", _integer(1024, 2**50)),
    names.ENV_DRAIN_DEADLINE_SECONDS: _Reader("drain.deadline_seconds", _at_least(0)),
    "PENSTOCK_ACCEPT_SECONDS": _Reader("drain.accept_seconds", _at_least(0)),
    names.ENV_PEER_URL: _Reader("drain.peer_url", _http_url),
    names.ENV_RELAY_SECONDS: _Reader("drain.relay_seconds", _at_least(0)),
    "PENSTOCK_INSECURE_CONTROL": _Reader("auth.insecure_control", _boolean),
    names.ENV_API_KEYS_FILE: _Reader("auth.api_keys_file", Path),
    names.ENV_TRUSTED_PROXIES: _Reader("auth.trusted_proxies", _networks),
    names.ENV_COMPUTE_BACKEND: _Reader("generation.step.compute", _member(Compute)),
    names.ENV_DTYPE: _Reader("engine.dtype", _member(DType)),
    names.ENV_CACHE_BYTES: _Reader("generation.step.cache_bytes", _integer(1, 2**50)),
    names.ENV_CACHE_PERCENT: _Reader("generation.step.cache_percent", _integer(1, 95)),
    names.ENV_HOST_CACHE_BYTES: _Reader("generation.step.host_cache_bytes", _integer(0, 2**50)),
    names.ENV_MAX_MODEL_LEN: _Reader("generation.step.max_model_len", _integer(2, 2**31)),
    names.ENV_MAX_RUNNING: _Reader("generation.step.max_running", _integer(1, MAX_BATCH_SIZE)),
    names.ENV_TENSOR_PARALLEL: _Reader("generation.step.tensor_parallel", _integer(1, MAX_RANKS)),
    names.ENV_PIPELINE_PARALLEL: _Reader(
        "generation.step.pipeline_parallel", _integer(1, MAX_RANKS)
    ),
    names.ENV_DATA_PARALLEL: _Reader("engine.data_parallel", _integer(1, MAX_RANKS)),
    "PENSTOCK_RENDEZVOUS_PORT": _Reader("group.port", _integer(1, 65_535)),
    "PENSTOCK_BATCH_INVARIANT": _Reader("generation.step.batch_invariant", _boolean),
    "PENSTOCK_OVERLAP_SCHEDULING": _Reader("generation.step.depth", _integer(0, 1)),
    names.ENV_MAX_RUN_SECONDS: _Reader("generation.max_run_seconds", _at_least(0.001)),
    names.ENV_LOG_FORMAT: _Reader("log.format", _one_of("json", "text")),
    names.ENV_LOG_LEVEL: _Reader("log.level", _one_of("DEBUG", "INFO", "WARNING", "ERROR")),
    names.ENV_ACCESS_LOG: _Reader("log.access_log", _boolean),
}
