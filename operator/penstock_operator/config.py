"""The operator's settings: the only reader of the environment, once, at start."""

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from pydantic import ValidationError

from penstock_api.types.policy import Prometheus
from penstock_operator.decide.config import PoolPeers
from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.errors import OperatorConfigError

PREFIX = "PENSTOCK_"
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
SCOPES = ("Cluster", "Namespaces")
LOG_FORMATS = ("json", "text")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
NAMESPACE_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """Every field is the variable `PENSTOCK_<FIELD>`; a field without a default is required."""

    namespace: str
    """The operator's own namespace: its Lease and its signing key live there."""
    default_runtime_image: str
    """Image of pools that name none, pinned at a pool's first render."""
    pod_name: str = ""
    """Who holds the Lease, in words; unset: the host's name."""
    image_pull_policy: str = ""
    """Always | IfNotPresent | Never; empty leaves it to Kubernetes."""
    scope: str = "Cluster"
    """Cluster | Namespaces: whether every namespace is served, or those that are named."""
    namespaces: str = ""
    """Names with commas between, in scope Namespaces."""
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
    pool_network_policy: PoolPeers | None = None
    """`{"clusterPort": [peers], "clientPort": [peers]}` in JSON, NetworkPolicyPeers; unset: pools get no NetworkPolicy."""
    tls_folder: str = ""
    """Holds the `tls.crt` and `tls.key` that this port is served with; empty: plain HTTP."""
    pod_ca_file: str = ""
    """Authorities, in PEM, of the certificates of pools that speak TLS; empty: those are not judged."""

    @property
    def served(self) -> tuple[str, ...]:
        """The namespaces by name; none in scope Cluster."""
        return tuple(one.strip() for one in self.namespaces.split(",") if one.strip())

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "OperatorConfig":
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
            raise OperatorConfigError(
                f"{_variable(unknown[0])} is not a setting; known: {_variables(known)}"
            )
        for name in ("namespace", "default_runtime_image"):
            if not given.get(name):
                raise OperatorConfigError(f"{_variable(name)} must be set")
        parsed = {"port", "pool_network_policy"}
        texts = {name: value for name, value in given.items() if name not in parsed}
        texts["pod_name"] = given.get("pod_name") or socket.gethostname()
        peers = _peers(given.get("pool_network_policy", ""))
        port = _port(given.get("port", "8080"))
        return _checked(cls(**texts, port=port, pool_network_policy=peers))


def _checked(config: OperatorConfig) -> OperatorConfig:
    _one_of("image_pull_policy", config.image_pull_policy, ("", *PULL_POLICIES))
    _one_of("log_format", config.log_format, LOG_FORMATS)
    _one_of("log_level", config.log_level, LOG_LEVELS)
    _one_of("scope", config.scope, SCOPES)
    _check_namespaces(config)
    if config.prometheus_url:
        url = urlsplit(config.prometheus_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.username:
            raise OperatorConfigError(
                f"{_variable('prometheus_url')} must be http(s)://host[:port][/path] without"
                f" credentials, got {config.prometheus_url!r}"
            )
    return config


def _check_namespaces(config: OperatorConfig) -> None:
    served, variable = config.served, _variable("namespaces")
    if config.scope == "Cluster" and served:
        raise OperatorConfigError(
            f"{variable} goes with {_variable('scope')}=Namespaces only: unset one"
        )
    if config.scope == "Namespaces" and not served:
        raise OperatorConfigError(
            f"{variable} must name at least one namespace in scope Namespaces"
        )
    wrong = [one for one in served if not NAMESPACE_NAME.match(one) or served.count(one) > 1]
    if wrong:
        raise OperatorConfigError(
            f"{variable} must hold names of namespaces, each once, got {wrong[0]!r}"
        )


def metrics_server(config: OperatorConfig) -> MetricsServer | None:
    """Return the Prometheus that is asked unless a policy says otherwise. Raises `OperatorConfigError`."""
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
        raise OperatorConfigError(f"{where}: {first['msg']}") from error
    except ValueError as error:
        raise OperatorConfigError(
            f"{_variable('prometheus_headers')} must be JSON: {error}"
        ) from error
    if spec is None:
        return None
    if spec.credentials_secret_ref is not None and not spec.url.startswith("https://"):
        raise OperatorConfigError(
            f"{_variable('prometheus_credentials_secret')} goes with https only, got {spec.url!r}"
        )
    return MetricsServer.of(spec)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        choices = ", ".join(one for one in allowed if one)
        raise OperatorConfigError(f"{_variable(name)} must be one of {choices}, got {value!r}")


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise OperatorConfigError(f"{_variable('port')} must be a port, 1 to 65535, got {text!r}")
    return int(text)


def _peers(text: str) -> PoolPeers | None:
    if not text:
        return None
    try:
        said = json.loads(text)
        cluster, clients = tuple(said.pop("clusterPort")), tuple(said.pop("clientPort", ()))
        if not said and cluster and all(isinstance(one, dict) for one in cluster + clients):
            return PoolPeers(cluster, clients)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise OperatorConfigError(
        f"{_variable('pool_network_policy')} must be JSON of clusterPort, a list of one or more"
        f" NetworkPolicyPeers, and perhaps clientPort, another, got {text!r:.200}"
    )


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _variables(known: set[str]) -> str:
    return ", ".join(sorted(map(_variable, known)))
