"""The operator's settings: the only reader of the environment, once, at start."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from pydantic import ValidationError

from penstock_api.policy import Prometheus
from penstock_operator.decide.metrics_server import MetricsServer
from penstock_operator.errors import ConfigError

PREFIX = "PENSTOCK_"
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
LOG_FORMATS = ("json", "text")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class Config:
    """Every field is the variable `PENSTOCK_<FIELD>`; a field without a default is required."""

    namespace: str
    """The operator's own namespace: its Lease and its signing key live there."""
    default_runtime_image: str
    """Image of pools that name none, pinned at a pool's first render."""
    pod_name: str = ""
    """Who holds the Lease, in words; unset: the host's name."""
    image_pull_policy: str = ""
    """Always | IfNotPresent | Never; empty leaves it to Kubernetes."""
    prometheus_url: str = ""
    """Where signals come from unless a policy says otherwise; empty: the pods are read."""
    prometheus_ca_config_map: str = ""
    """`name/key` of a ConfigMap of the operator's namespace with its CA; empty: the system's."""
    prometheus_credentials_secret: str = ""
    """Name of a Secret of the operator's namespace: a token, or a username and a password."""
    prometheus_headers: str = ""
    """Further headers, as a JSON object of texts."""
    log_format: str = "json"
    log_level: str = "INFO"
    port: int = 8080
    """Health and metrics of the operator itself."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Config":
        """Return the settings in `environ`.

        Raises:
            ConfigError: a variable is missing, unknown or out of range; the message names it.
        """
        given = {
            key.removeprefix(PREFIX).lower(): value.strip()
            for key, value in environ.items()
            if key.startswith(PREFIX)
        }
        known = {one.name for one in fields(cls)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ConfigError(
                f"{_variable(unknown[0])} is not a setting; known: {_variables(known)}"
            )
        for name in ("namespace", "default_runtime_image"):
            if not given.get(name):
                raise ConfigError(f"{_variable(name)} must be set")
        texts = {name: value for name, value in given.items() if name != "port"}
        texts["pod_name"] = given.get("pod_name") or socket.gethostname()
        return _checked(cls(**texts, port=_port(given.get("port", "8080"))))


def _checked(config: Config) -> Config:
    _one_of("image_pull_policy", config.image_pull_policy, ("", *PULL_POLICIES))
    _one_of("log_format", config.log_format, LOG_FORMATS)
    _one_of("log_level", config.log_level, LOG_LEVELS)
    if config.prometheus_url:
        url = urlsplit(config.prometheus_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.username:
            raise ConfigError(
                f"{_variable('prometheus_url')} must be http(s)://host[:port][/path] without"
                f" credentials, got {config.prometheus_url!r}"
            )
    return config


def metrics_server(config: Config) -> MetricsServer | None:
    """Return the Prometheus that is asked unless a policy says otherwise. Raises `ConfigError`."""
    name, _, key = config.prometheus_ca_config_map.partition("/")
    try:
        given = {
            "url": config.prometheus_url,
            "caConfigMapRef": {"name": name, "key": key} if name else None,
            "credentialsSecretRef": {"name": config.prometheus_credentials_secret}
            if config.prometheus_credentials_secret
            else None,
            "headers": json.loads(config.prometheus_headers or "{}"),
        }
        spec = Prometheus.model_validate(given) if config.prometheus_url else None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = _variable("prometheus_" + str(first["loc"][0]))
        raise ConfigError(f"{where}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"{_variable('prometheus_headers')} must be JSON: {error}") from error
    if spec is None:
        return None
    if spec.credentials_secret_ref is not None and not spec.url.startswith("https://"):
        raise ConfigError(
            f"{_variable('prometheus_credentials_secret')} goes with https only, got {spec.url!r}"
        )
    return MetricsServer.of(spec)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        choices = ", ".join(one for one in allowed if one)
        raise ConfigError(f"{_variable(name)} must be one of {choices}, got {value!r}")


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ConfigError(f"{_variable('port')} must be a port, 1 to 65535, got {text!r}")
    return int(text)


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _variables(known: set[str]) -> str:
    return ", ".join(sorted(map(_variable, known)))
