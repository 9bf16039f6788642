"""Settings of the batch service, read once from the environment at startup; no other module reads the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock_api.settings import ACCOUNT_FOLDER, LOG_CHOICES, SettingsReader, variable
from penstock_batches.errors import BatchesConfigError

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "store": ("SQLite", "Redis"),
    **LOG_CHOICES,
}
BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "port": (0, 65535),
    "status_port": (0, 65535),
    "max_file_bytes": (1024, 2**40),
    "max_in_flight": (1, 10_000),
    "max_uploads": (1, 10_000),
    "min_free_bytes": (0, 2**50),
    "lease_seconds": (0.2, 3600),
    "request_timeout_seconds": (1, 86_400),
    "drain_seconds": (0, 3600),
    "file_days": (0.01, 3650),
}
READER: Final = SettingsReader(BatchesConfigError, ("namespace",), CHOICES, BOUNDS)


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The settings. Each field is the variable `PENSTOCK_<FIELD>`; a field without a default is required."""

    namespace: str
    """The only namespace whose pools this service sends work to: its own."""
    folder: str = "/var/lib/penstock-batches"
    """Folder of the volume: the payloads, and the store on SQLite."""
    store: str = "SQLite"
    redis_url: str = ""
    """`redis://` or `rediss://user:password@host:port/database`; required with the store Redis."""
    redis_ca_file: str = ""
    """CA certificates of a Redis with TLS; unset: those of the system."""
    redis_cert_file: str = ""
    """Certificate for a Redis that requires one of its clients, with `redis_key_file`."""
    redis_key_file: str = ""
    pools: str = ""
    """`MODEL=URL` by commas: the pools, instead of the namespace's Services."""
    api_keys_file: str = ""
    """File of API keys, as the pools have it; unset: clients need no key, and all are one tenant."""
    pool_ca_file: str = ""
    """CA certificates of pools with TLS; unset: encrypted, but not verified."""
    api_server: str = ""
    """URL of the API server; unset: that of the cluster."""
    token_file: str = f"{ACCOUNT_FOLDER}/token"
    ca_file: str = f"{ACCOUNT_FOLDER}/ca.crt"
    host: str = "0.0.0.0"  # noqa: S104  a pod's own network
    port: int = 8000
    """Port of clients; 0: any free port, which the log names."""
    status_port: int = 8091
    """Port of health and metrics."""
    max_file_bytes: int = 200 * 10**6
    """Largest file that a client may upload."""
    max_uploads: int = 16
    """Uploads at the same time; beyond it, 429."""
    min_free_bytes: int = 512 * 2**20
    """Room on the volume that uploads leave to answers; below it, they get 503."""
    webhook_hosts: str = ""
    """`HOST` or `HOST:PORT` by commas: the hosts that webhooks of infer requests may call; unset: none."""
    webhook_secret_file: str = ""
    """File of the secret that signs webhooks; unset: they have no signature."""
    file_days: float = 30.0
    """Age at which files are deleted whose upload sets no `expires_after`."""
    max_in_flight: int = 256
    """Lines in flight to one pool, at most."""
    lease_seconds: float = 30.0
    """Time after which the lines of a service that was killed are sent again."""
    request_timeout_seconds: float = 3600.0
    """Time that one attempt of a line may take."""
    drain_seconds: float = 20.0
    """Time that lines in flight have to end when the service stops."""
    log_format: str = "json"
    log_level: str = "INFO"

    @property
    def payload_folder(self) -> Path:
        """Folder of the payloads."""
        return Path(self.folder) / "payloads"

    @property
    def store_folder(self) -> Path:
        """Folder of the store on SQLite."""
        return Path(self.folder) / "store"

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "BatchSettings":
        """Return the settings in `environ`.

        Raises:
            BatchesConfigError: a variable is missing, unknown or out of range; the message names it.
        """
        settings = cls(**READER.values(cls, environ))
        if settings.store == "Redis" and not settings.redis_url:
            raise BatchesConfigError(f"{variable('redis_url')} must be set with the store Redis")
        if settings.redis_url and not settings.redis_url.startswith(("redis://", "rediss://")):
            raise BatchesConfigError(
                f"{variable('redis_url')} must begin with redis:// or rediss://"
            )
        if bool(settings.redis_cert_file) != bool(settings.redis_key_file):
            names = f"{variable('redis_cert_file')} and {variable('redis_key_file')}"
            raise BatchesConfigError(f"{names} must be set together")
        pool_urls(settings.pools)
        return settings


def pool_urls(text: str) -> dict[str, str]:
    """Return the URL of each model in `MODEL=URL,...`.

    Raises:
        BatchesConfigError: a part has another form.
    """
    urls = {}
    for part in filter(None, text.split(",")):
        model, _, url = part.rpartition("=")
        if not model.strip() or not url.strip().startswith(("http://", "https://")):
            raise BatchesConfigError(
                f"{variable('pools')} must be MODEL=URL by commas, got {part!r}"
            )
        urls[model.strip()] = url.strip().rstrip("/")
    return urls
