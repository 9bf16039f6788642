"""Which part of the cluster an installation serves, and where it therefore lists and watches what. Pure.

Cluster: every namespace, by one list and watch a kind. Namespaces: those that are named, each by lists and watches of
its own, so that exactly a Role in each is needed and one that is lost takes no other with it. Policies and the
operator's own namespace are places of their own then.

What this installation was told to serve, and what it may read of that: asked once, at start.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock_operator.config import OperatorConfig
from penstock_operator.errors import Rejected
from penstock_operator.kube.client import ApiClient, ApiRequest
from penstock_operator.kube.kinds import CONFIG_MAP, NAMESPACE, POLICY, WATCHED, ResourceKind


@dataclass(frozen=True, slots=True)
class WatchScope:
    """Kinds that are listed and watched together."""

    namespace: str | None
    """None: the whole cluster."""
    kinds: tuple[ResourceKind, ...]
    """Those that are listed and watched."""

    def __str__(self) -> str:
        """Return its name for logs."""
        return f"namespace {self.namespace}" if self.namespace else "the cluster"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is served."""

    places: tuple[WatchScope, ...] = (WatchScope(None, WATCHED),)
    namespaces: tuple[str, ...] | None = None
    """The namespaces that are served; None: every one."""
    policies_readable: bool = True

    def may_lose(self, place: WatchScope) -> bool:
        """Tell whether the others go on where a place cannot be read: a namespace that is gone, or not there yet."""
        return self.namespaces is not None and place.namespace in self.namespaces


CLUSTER = Scope()


def namespaces_scope(namespaces: Sequence[str], own: str, *, policies_readable: bool) -> Scope:
    """Return the scope of an installation in namespace `own` that serves `namespaces`.

    A namespace itself can be read in it, but neither listed nor watched: `Resync` asks for it by name.
    """
    within = tuple(kind for kind in WATCHED if kind not in (POLICY, NAMESPACE))
    places = [WatchScope(one, within) for one in namespaces]
    if own not in namespaces:
        places.append(WatchScope(own, (CONFIG_MAP,)))  # the records of settings found good
    if policies_readable:
        places.append(WatchScope(None, (POLICY,)))
    return Scope(tuple(places), tuple(namespaces), policies_readable)


log = logging.getLogger(__name__)


async def scope_of(config: OperatorConfig, cluster: ApiClient) -> Scope:
    """Return the scope that the settings name.

    Raises:
        ClusterError: the API server would not say whether policies may be read.
    """
    if not config.served:
        return CLUSTER
    readable = await _policies_readable(cluster)
    if not readable:
        log.warning("InferencePolicies may not be read: none applies (rbac.readPolicies)")
    return namespaces_scope(config.served, config.namespace, policies_readable=readable)


async def _policies_readable(cluster: ApiClient) -> bool:
    try:
        await cluster.send(ApiRequest("GET", POLICY.path(), query={"limit": "1"}))
    except Rejected as error:
        if error.status != 403:
            raise
        return False
    return True
