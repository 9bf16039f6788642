"""Served scope of an installation: which namespaces it serves, and which kinds it lists and watches in each.

Cluster: every namespace, with one list and watch per kind. Namespaces: those in the settings, each with its own lists and
watches, so that a Role in each suffices and an unreadable namespace does not affect the others; policies and the
operator's own namespace are then watched separately.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock_operator.config import OperatorConfig
from penstock_operator.errors import Rejected
from penstock_operator.kube.client import ApiClient, ApiRequest
from penstock_operator.kube.kinds import (
    CONFIG_MAP,
    GROUP_KINDS,
    NAMESPACE,
    POLICY,
    ROLE_BINDING,
    WATCHED,
    ResourceKind,
)


@dataclass(frozen=True, slots=True)
class WatchScope:
    """Kinds that are listed and watched together."""

    namespace: str | None
    """None: the whole cluster."""
    kinds: tuple[ResourceKind, ...]

    def __str__(self) -> str:
        """Return the name for logs."""
        return f"namespace {self.namespace}" if self.namespace else "the cluster"


@dataclass(frozen=True, slots=True)
class Scope:
    """The served namespaces and their watches."""

    watches: tuple[WatchScope, ...] = (WatchScope(None, WATCHED),)
    namespaces: tuple[str, ...] | None = None
    """The served namespaces; None: all."""
    policies_readable: bool = True

    def is_optional(self, watch: WatchScope) -> bool:
        """Return whether the operator continues if it cannot read a scope: a namespace may be deleted, or not exist yet."""
        return self.namespaces is not None and watch.namespace in self.namespaces


CLUSTER = Scope()


def namespaces_scope(
    namespaces: Sequence[str],
    own: str,
    *,
    policies_readable: bool,
    optional: tuple[ResourceKind, ...] = (),
) -> Scope:
    """Return the scope of an installation in namespace `own` that serves `namespaces`; `optional` kinds too.

    A Role can grant get on its Namespace object, but neither list nor watch: `Resync` reads it by name.
    """
    within = tuple(kind for kind in WATCHED if kind not in (POLICY, NAMESPACE))
    within += optional
    watches = [WatchScope(namespace, within) for namespace in namespaces]
    if own not in namespaces:
        watches.append(WatchScope(own, (CONFIG_MAP,)))  # the settings records
    if policies_readable:
        watches.append(WatchScope(None, (POLICY,)))
    return Scope(tuple(watches), tuple(namespaces), policies_readable)


log = logging.getLogger(__name__)


def optional_kinds(config: OperatorConfig) -> tuple[ResourceKind, ...]:
    """Return the kinds that only some installations watch."""
    gateways = (ROLE_BINDING,) if config.gateway_image else ()
    return (*gateways, *(GROUP_KINDS if config.groups else ()))


async def scope_of(config: OperatorConfig, cluster: ApiClient) -> Scope:
    """Return the configured scope, without policies if this operator may not read them.

    Raises:
        ClusterError: the API server did not answer whether policies may be read.
    """
    optional = optional_kinds(config)
    if not config.served:
        return Scope((WatchScope(None, (*WATCHED, *optional)),))
    readable = await _policies_readable(cluster)
    if not readable:
        log.warning(
            "no permission to read InferencePolicies, so none applies: set rbac.readPolicies and restart the operator"
        )
    return namespaces_scope(
        config.served, config.namespace, policies_readable=readable, optional=optional
    )


async def _policies_readable(cluster: ApiClient) -> bool:
    try:
        await cluster.send(ApiRequest("GET", POLICY.path(), query={"limit": "1"}))
    except Rejected as error:
        if error.status != 403:
            raise
        return False
    return True
