"""Settings of the gateway, read once from the environment at startup; no other module reads the environment."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock_api.envoy import BOOTSTRAP_FILE, SOCKET_FOLDER
from penstock_api.names import TLS_FOLDER
from penstock_api.settings import ACCOUNT_FOLDER, LOG_CHOICES, SettingsReader
from penstock_gateway.errors import GatewayConfigError

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "status_port": (1, 65535),
    "readiness_port": (1, 65535),
    "max_body_bytes": (1024, 2**32 - 1),
    "body_timeout_seconds": (0.1, 3600),
    "max_silent_seconds": (1, 86400),
    "max_connections": (1, 1_000_000),
    "max_pool_connections": (1, 1_000_000),
    "heap_bytes": (64 * 2**20, 2**40),
    "drain_seconds": (0, 86400),
    "accept_seconds": (0, 600),
}
READER: Final = SettingsReader(GatewayConfigError, ("namespace", "gateway"), LOG_CHOICES, BOUNDS)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings. Each field is the variable `PENSTOCK_<FIELD>`; a field without a default is required."""

    namespace: str
    """The only namespace whose pools this gateway serves: its own."""
    gateway: str
    """Value of the label `penstock.dev/gateway` of the gateway's pods, on which pools' Services select."""
    pod_name: str = ""
    """Envoy's node id; unset: the host name."""
    host: str = "0.0.0.0"  # noqa: S104  a pod's own network
    """Address of every listener; `::` for a dual-stack cluster."""
    status_port: int = 8091
    """Port of this process: health, metrics and status."""
    readiness_port: int = 8090
    """Port of Envoy's own `/readyz`, open from the first acknowledged snapshot on."""
    socket_folder: str = SOCKET_FOLDER
    """Folder that both containers share: the sockets of ADS and of Envoy's admin interface, and the bootstrap."""
    api_server: str = ""
    """URL of the API server; unset: that of the cluster."""
    token_file: str = f"{ACCOUNT_FOLDER}/token"
    """Token of the ServiceAccount, read again for every request, since the kubelet rotates it."""
    ca_file: str = f"{ACCOUNT_FOLDER}/ca.crt"
    tls_folder: str = TLS_FOLDER
    """Folder with a folder `<pool>` for each pool that serves TLS: `tls.crt`, `tls.key` and, to verify pods, `ca.crt`."""
    max_body_bytes: int = 64 * 2**20
    """Largest request body of a pool that sets none; above it, 413. The default is that of the pods."""
    body_timeout_seconds: float = 60.0
    """Time to send a whole request to a pool that sets none, after which the answer is 408."""
    max_silent_seconds: float = 3600.0
    """Time without a byte in either direction after which a request ends: the longest wait for a first byte."""
    max_connections: int = 20_000
    """Connections of clients, over all pools."""
    max_pool_connections: int = 10_000
    """Connections of clients of one pool."""
    heap_bytes: int = 2**30
    """Envoy's heap, near which it sheds load: the memory limit of its container, less a tenth."""
    access_log: bool = False
    """Whether Envoy writes a JSON line for each request to its standard output."""
    drain_seconds: float = 600.0
    """Time that requests in flight have to end when the gateway's pod is deleted."""
    accept_seconds: float = 5.0
    """Time for which a stopping gateway still expects new connections: the delay of kube-proxy."""
    log_format: str = "json"
    log_level: str = "INFO"

    @property
    def ads_socket(self) -> Path:
        """Socket of the ADS server."""
        return Path(self.socket_folder) / "ads.sock"

    @property
    def hold_socket(self) -> Path:
        """Socket of the server that holds requests."""
        return Path(self.socket_folder) / "hold.sock"

    @property
    def hold_listener_socket(self) -> Path:
        """Socket of Envoy's hold listener, in front of that server."""
        return Path(self.socket_folder) / "hold-listener.sock"

    @property
    def admin_socket(self) -> Path:
        """Socket of Envoy's admin interface."""
        return Path(self.socket_folder) / "admin.sock"

    @property
    def bootstrap_file(self) -> Path:
        """Envoy's bootstrap, in JSON."""
        return Path(self.socket_folder) / BOOTSTRAP_FILE

    @property
    def reserved_ports(self) -> frozenset[int]:
        """Ports that no pool's listener may have."""
        return frozenset({self.status_port, self.readiness_port})

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "GatewaySettings":
        """Return the settings in `environ`.

        Raises:
            GatewayConfigError: a variable is missing, unknown or out of range; the message names it.
        """
        settings = READER.values(cls, environ)
        settings["pod_name"] = settings.get("pod_name") or socket.gethostname()
        return cls(**settings)
