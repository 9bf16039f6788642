"""What this installation was told to serve, and what it may read of that: asked once, at start."""

import logging

from penstock_operator.config import Config
from penstock_operator.errors import Rejected
from penstock_operator.kube.client import Cluster, Request
from penstock_operator.kube.kinds import POLICY
from penstock_operator.kube.scope import CLUSTER, Scope, namespaces_scope

log = logging.getLogger(__name__)


async def scope_of(config: Config, cluster: Cluster) -> Scope:
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


async def _policies_readable(cluster: Cluster) -> bool:
    try:
        await cluster.send(Request("GET", POLICY.path(), query={"limit": "1"}))
    except Rejected as error:
        if error.status != 403:
            raise
        return False
    return True
