"""Resource kinds that the operator reads or writes: API group, URL path and label selector."""

from dataclasses import dataclass

from penstock_api import names

POOL_OBJECTS = names.LABEL_POOL_UID
"""Label selector for lists and watches of child kinds, which excludes foreign objects."""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A resource kind, with the parts of its URL."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool = True
    label_selector: str | None = None

    @property
    def api_version(self) -> str:
        """`apiVersion` of manifests, such as `v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL path of the collection, or of one object in it."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace is not None else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name is not None else "")


POOL = ResourceKind(names.POOL_KIND, names.GROUP, names.VERSION, names.POOL_PLURAL)
POLICY = ResourceKind(
    names.POLICY_KIND, names.GROUP, names.VERSION, names.POLICY_PLURAL, namespaced=False
)
NAMESPACE = ResourceKind("Namespace", "", "v1", "namespaces", namespaced=False)
NODE = ResourceKind("Node", "", "v1", "nodes", namespaced=False)
"""Read by name only, for prices by node label."""
DEPLOYMENT = ResourceKind("Deployment", "apps", "v1", "deployments", label_selector=POOL_OBJECTS)
REPLICA_SET = ResourceKind("ReplicaSet", "apps", "v1", "replicasets", label_selector=POOL_OBJECTS)
REVISION = ResourceKind(
    "ControllerRevision", "apps", "v1", "controllerrevisions", label_selector=POOL_OBJECTS
)
SERVICE = ResourceKind("Service", "", "v1", "services", label_selector=POOL_OBJECTS)
CONFIG_MAP = ResourceKind("ConfigMap", "", "v1", "configmaps", label_selector=POOL_OBJECTS)
SERVICE_ACCOUNT = ResourceKind(
    "ServiceAccount", "", "v1", "serviceaccounts", label_selector=POOL_OBJECTS
)
DISRUPTION_BUDGET = ResourceKind(
    "PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", label_selector=POOL_OBJECTS
)
NETWORK_POLICY = ResourceKind(
    "NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies", label_selector=POOL_OBJECTS
)
ROLE_BINDING = ResourceKind(
    "RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings", label_selector=POOL_OBJECTS
)
"""Of gateways only: watched where the installation has a gateway."""
LEADER_WORKER_SET = ResourceKind(
    "LeaderWorkerSet",
    "leaderworkerset.x-k8s.io",
    "v1",
    "leaderworkersets",
    label_selector=POOL_OBJECTS,
)
STATEFUL_SET = ResourceKind(
    "StatefulSet", "apps", "v1", "statefulsets", label_selector=names.LABEL_GROUPS_OF
)
"""Those of LeaderWorkerSets, between them and their pods."""
GROUP_KINDS = (LEADER_WORKER_SET, STATEFUL_SET)
"""Watched where the installation creates LeaderWorkerSets."""
POD = ResourceKind("Pod", "", "v1", "pods", label_selector=POOL_OBJECTS)

NAMED_CHILDREN = (DEPLOYMENT, SERVICE, CONFIG_MAP, DISRUPTION_BUDGET, SERVICE_ACCOUNT)
"""Children whose names derive from the pool's; a GET confirms that one is absent."""
GUARDED_CHILDREN = (*NAMED_CHILDREN, NETWORK_POLICY)
"""Named children of pools that have a NetworkPolicy."""
CHILDREN = (*GUARDED_CHILDREN, REVISION, LEADER_WORKER_SET)
WATCHED = (POOL, POLICY, NAMESPACE, *GUARDED_CHILDREN, REVISION, REPLICA_SET, POD)
GATEWAY_CHILDREN = (SERVICE_ACCOUNT, ROLE_BINDING, DEPLOYMENT, DISRUPTION_BUDGET, NETWORK_POLICY)
"""Objects of a namespace's gateway, all under the same name."""
BY_KIND = {kind.kind: kind for kind in (*WATCHED, ROLE_BINDING, *GROUP_KINDS)}


def child_name(kind: ResourceKind, pool_name: str) -> str:
    """Return the name of a pool's child of this kind (docs/design/design.md#children)."""
    return pool_name if kind is SERVICE else pool_name + names.CHILD_SUFFIX
