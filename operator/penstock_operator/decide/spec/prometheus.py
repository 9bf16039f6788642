"""The Prometheus server of a pool's signals and how to query it: set by the administrator or a policy, never by a pool."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from penstock_api.types.policy import Prometheus
from penstock_operator.decide.spec.selectors import matching, priority
from penstock_operator.observed import PolicyObject, PoolObject


@dataclass(frozen=True, slots=True)
class KeyOf:
    """A key of a Secret or ConfigMap in the operator's own namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A Prometheus server; certificates and credentials are referenced by name."""

    url: str
    ca: KeyOf | None = None
    """CA bundle in a ConfigMap; None: the certificates that the system trusts."""
    credentials: str | None = None
    """Name of a Secret with a token, or with user name and password."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every query, sorted by name."""

    @classmethod
    def of(cls, spec: Prometheus) -> "MetricsServer":
        """Return the server of a policy."""
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
    """Return the server of the pool's signals: that of the policy with the highest priority, else `default`.

    Where policies of equal priority name different servers none of them applies: `last`, the server of the pass
    before, stays. It is in the operator's memory, where no pool's author can change it.
    """
    selected = [
        (policy, MetricsServer.of(policy.spec.metrics.prometheus))
        for policy in matching(pool.labels, namespace_labels, policies)
        if policy.spec.metrics and policy.spec.metrics.prometheus
    ]
    if not selected:
        return default
    _, top = next(groupby(selected, key=lambda item: priority(item[0])))
    servers = {server for _, server in top}
    return servers.pop() if len(servers) == 1 else last or default
