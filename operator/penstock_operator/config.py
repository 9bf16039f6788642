"""Settings of the operator, read once from the environment and the arguments at startup; no other module reads them."""

import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from penstock_api.settings import LOG_FORMATS, LOG_LEVELS, SettingsReader, variable
from penstock_api.types.pod_template.security import IdSource
from penstock_api.types.policy import Prometheus
from penstock_operator.decide.config import PoolPeers
from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.errors import OperatorConfigError

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
POOL_IDS = tuple(IdSource)
SCOPES = ("Cluster", "Namespaces")
ENABLED = "Enabled"
ARGUMENT = re.compile(r"^--([a-z-]+)=(.*)$")
MAX_GATEWAY_REPLICAS = 100
GATEWAY_POD_FIELDS = {"imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName"}
READER = SettingsReader(OperatorConfigError, ("namespace", "default_runtime_image"))
NAMESPACE_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """The settings. Each field is the variable `PENSTOCK_<FIELD>`; a field without a default is required."""

    namespace: str
    """The operator's own namespace, with its Lease and its signing keys."""
    default_runtime_image: str
    """Runtime image of pools that set none, pinned at a pool's first render."""
    pod_name: str = ""
    """Identity in the Lease; unset: the host name."""
    image_pull_policy: str = ""
    """Always | IfNotPresent | Never; empty: the default of Kubernetes."""
    pool_ids: str = "Fixed"
    """Fixed | Platform: pods of pools that set no user and group IDs get 65532, or those that the platform assigns."""
    scope: str = "Cluster"
    """Cluster | Namespaces: serves every namespace, or those in `namespaces`."""
    namespaces: str = ""
    """Comma-separated names, in scope Namespaces."""
    prometheus_url: str = ""
    """URL of the Prometheus for signals; a policy may name another. Empty: the operator scrapes the pods."""
    prometheus_ca_config_map: str = ""
    """`name/key` of a ConfigMap in the operator's namespace with its CA; empty: the system's CAs."""
    prometheus_credentials_secret: str = ""
    """Name of a Secret in the operator's namespace with a token, or a username and a password."""
    prometheus_headers: str = ""
    """Additional headers, as a JSON object of strings."""
    log_format: str = "json"
    log_level: str = "INFO"
    port: int = 8080
    """Port of the operator's own health endpoints and metrics."""
    pool_network_policy: PoolPeers | None = None
    """`{"clusterPort": [peers], "clientPort": [peers]}` in JSON, NetworkPolicyPeers; unset: pools get no NetworkPolicy."""
    gateway_image: str = ""
    """Image of the gateways' controller; empty: this installation has no gateway."""
    gateway_envoy_image: str = ""
    """Envoy's image; required with `gateway_image`."""
    gateway_cluster_role: str = ""
    """ClusterRole of the gateways' ServiceAccounts; required with `gateway_image`."""
    gateway_replicas: int = 2
    """Pods of each namespace's gateway."""
    gateway_pod: Mapping[str, Any] = field(default_factory=dict)
    """Fields of their spec as a JSON object: imagePullSecrets, nodeSelector, tolerations, priorityClassName."""
    leader_worker_sets: str = "Disabled"
    """Enabled | Disabled: whether pools may have replicas of several pods, which needs that kind in the cluster."""
    tls_folder: str = ""
    """Folder with `tls.crt` and `tls.key` for this port; empty: plain HTTP."""
    pod_ca_file: str = ""
    """PEM file with the CAs of the pods' certificates; empty: they are not verified."""

    @property
    def groups(self) -> bool:
        """Whether this installation creates LeaderWorkerSets."""
        return self.leader_worker_sets == ENABLED

    @property
    def served(self) -> tuple[str, ...]:
        """The names in `namespaces`; empty in scope Cluster."""
        return tuple(name.strip() for name in self.namespaces.split(",") if name.strip())

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "OperatorConfig":
        """Return the settings in `environ`.

        Raises:
            OperatorConfigError: a variable is missing, unknown or out of range; the message names it.
        """
        values = READER.texts(cls, environ)
        parsed = {"port", "pool_network_policy", "gateway_replicas", "gateway_pod"}
        texts = {name: value for name, value in values.items() if name not in parsed}
        texts["pod_name"] = values.get("pod_name") or socket.gethostname()
        peers = _peers(values.get("pool_network_policy", ""))
        port = _port(values.get("port", "8080"))
        replicas = _replicas(values.get("gateway_replicas", "2"))
        pod = _gateway_pod(values.get("gateway_pod", "{}"))
        return _checked(
            cls(
                **texts,
                port=port,
                pool_network_policy=peers,
                gateway_replicas=replicas,
                gateway_pod=pod,
            )
        )


def variables_of(arguments: Sequence[str]) -> dict[str, str]:
    """Return the variables for command-line arguments: `--log-level=DEBUG` is `PENSTOCK_LOG_LEVEL`.

    Raises:
        OperatorConfigError: an argument has another form.
    """
    variables = {}
    for argument in arguments:
        match = ARGUMENT.match(argument)
        if match is None:
            raise OperatorConfigError(
                f"argument {argument!r} must be --<setting>=<value>, such as --log-level=DEBUG"
            )
        variables[variable(match[1].replace("-", "_"))] = match[2]
    return variables


def _checked(config: OperatorConfig) -> OperatorConfig:
    _check_choice("image_pull_policy", config.image_pull_policy, ("", *PULL_POLICIES))
    _check_choice("pool_ids", config.pool_ids, POOL_IDS)
    _check_choice("log_format", config.log_format, LOG_FORMATS)
    _check_choice("log_level", config.log_level, LOG_LEVELS)
    _check_choice("scope", config.scope, SCOPES)
    _check_choice("leader_worker_sets", config.leader_worker_sets, (ENABLED, "Disabled"))
    _check_namespaces(config)
    gateway = ("gateway_image", "gateway_envoy_image", "gateway_cluster_role")
    if len({bool(getattr(config, name)) for name in gateway}) > 1:
        names = ", ".join(map(variable, gateway))
        raise OperatorConfigError(f"{names} must be set together")
    if config.prometheus_url:
        url = urlsplit(config.prometheus_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.username:
            raise OperatorConfigError(
                f"{variable('prometheus_url')} must be http(s)://host[:port][/path] without"
                f" credentials, got {config.prometheus_url!r}"
            )
    return config


def _check_namespaces(config: OperatorConfig) -> None:
    served, listed = config.served, variable("namespaces")
    if config.scope == "Cluster" and served:
        raise OperatorConfigError(
            f"{listed} requires {variable('scope')}=Namespaces: unset it, or change the scope"
        )
    if config.scope == "Namespaces" and not served:
        raise OperatorConfigError(f"{listed} must name at least one namespace in scope Namespaces")
    wrong = [name for name in served if not NAMESPACE_NAME.match(name) or served.count(name) > 1]
    if wrong:
        raise OperatorConfigError(
            f"{listed} must list valid namespace names without duplicates, got {wrong[0]!r}"
        )


def metrics_server(config: OperatorConfig) -> MetricsServer | None:
    """Return the default Prometheus, for pools whose policies name none. Raises `OperatorConfigError`."""
    name, _, key = config.prometheus_ca_config_map.partition("/")
    try:
        server_fields = {
            "url": config.prometheus_url,
            "caConfigMapRef": {"name": name, "key": key} if name else None,
            "credentialsSecretRef": {"name": config.prometheus_credentials_secret}
            if config.prometheus_credentials_secret
            else None,
            "headers": json.loads(config.prometheus_headers or "{}"),
        }
        spec = Prometheus.model_validate(server_fields) if config.prometheus_url else None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = variable("prometheus_" + str(first["loc"][0]))
        raise OperatorConfigError(f"{where}: {first['msg']}") from error
    except ValueError as error:
        raise OperatorConfigError(
            f"{variable('prometheus_headers')} must be JSON: {error}"
        ) from error
    if spec is None:
        return None
    if spec.credentials_secret_ref is not None and not spec.url.startswith("https://"):
        raise OperatorConfigError(
            f"{variable('prometheus_credentials_secret')} requires an https URL, got {spec.url!r}"
        )
    return MetricsServer.of(spec)


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        choices = ", ".join(choice for choice in allowed if choice)
        raise OperatorConfigError(f"{variable(name)} must be one of {choices}, got {value!r}")


def _replicas(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_GATEWAY_REPLICAS:
        raise OperatorConfigError(
            f"{variable('gateway_replicas')} must be 1 to {MAX_GATEWAY_REPLICAS}, got {text!r}"
        )
    return int(text)


def _gateway_pod(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if isinstance(fields, dict) and fields.keys() <= GATEWAY_POD_FIELDS:
        return fields
    raise OperatorConfigError(
        f"{variable('gateway_pod')} must be a JSON object with any of {', '.join(sorted(GATEWAY_POD_FIELDS))};"
        f" got {text!r:.200}"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise OperatorConfigError(f"{variable('port')} must be a port, 1 to 65535, got {text!r}")
    return int(text)


def _peers(text: str) -> PoolPeers | None:
    if not text:
        return None
    try:
        ports = json.loads(text)
        cluster, clients = tuple(ports.pop("clusterPort")), tuple(ports.pop("clientPort", ()))
        if not ports and cluster and all(isinstance(peer, dict) for peer in cluster + clients):
            return PoolPeers(cluster, clients)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise OperatorConfigError(
        f"{variable('pool_network_policy')} must be a JSON object with clusterPort, a non-empty list of"
        f" NetworkPolicyPeers, and optionally clientPort, another such list; got {text!r:.200}"
    )
