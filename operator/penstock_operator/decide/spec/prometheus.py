"""Which Prometheus a pool's signals come from, and how it is to be asked: an administrator's word, never a pool's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from penstock_api.types.policy import Prometheus
from penstock_operator.decide.spec.selectors import matching, priority
from penstock_operator.observed import PolicyObject, PoolObject


@dataclass(frozen=True, slots=True)
class KeyOf:
    """One key of an object in the operator's own namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A Prometheus; what proves one to the other is named here, not held."""

    url: str
    ca: KeyOf | None = None
    """Of a ConfigMap; None: the certificates that the system trusts."""
    credentials: str | None = None
    """Name of a Secret with a token, or a username and a password."""
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every question, sorted by name."""

    @classmethod
    def of(cls, spec: Prometheus) -> "MetricsServer":
        """Return the server that a policy names."""
        ca, secret = spec.ca_config_map_ref, spec.credentials_secret_ref
        return cls(
            spec.url,
            None if ca is None else KeyOf(ca.name, ca.key),
            None if secret is None else secret.name,
            tuple(sorted((spec.headers or {}).items())),
        )


def metrics_server(
    pool: PoolObject,
    namespace_labels: Mapping[str, str],
    policies: Iterable[PolicyObject],
    default: MetricsServer | None,
    last: MetricsServer | None = None,
) -> MetricsServer | None:
    """Return where the pool's signals are: the highest priority's word, else `default`.

    Policies of equal priority with different servers apply neither: `last`, the one that the pass used
    before, stays. It is the pass's own memory, never something a pool's author can write.
    """
    selected = [
        (one, MetricsServer.of(one.spec.metrics.prometheus))
        for one in matching(pool.labels, namespace_labels, policies)
        if one.spec.metrics and one.spec.metrics.prometheus
    ]
    if not selected:
        return default
    _, top = next(groupby(selected, key=lambda found: priority(found[0])))
    servers = {server for _, server in top}
    return servers.pop() if len(servers) == 1 else last or default
