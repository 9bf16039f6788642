"""LeaderWorkerSets in the tests: their controller, installed on demand, and their manifest."""

from tests.support.cluster.groups import controller
from tests.support.cluster.places import Places
from tests.support.kube.api import Api, ApiError, Object
from tests.support.kube.pools import until
from tests.support.kube.target import Target

API_VERSION = "leaderworkerset.x-k8s.io/v1"
LABEL = "app.kubernetes.io/instance=lws"
"""On every object of the controller."""
KINDS = (
    "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "customresourcedefinitions",
    "clusterrolebindings", "clusterroles", "namespaces",
)  # fmt: skip
"""Kinds of the controller's objects outside its namespace, webhooks first: without their server, nothing could change."""


def leader_worker_set(namespace: str, name: str, size: int, pod: Object) -> Object:
    """Return the manifest of one group of `size` pods of this spec."""
    template = {"size": size, "workerTemplate": {"spec": pod}}
    return {
        "apiVersion": API_VERSION,
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template},
    }


def path(namespace: str, name: str = "") -> str:
    """Return the REST path of a LeaderWorkerSet, or of all in a namespace."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/leaderworkersets/{name}".rstrip("/")


def served(api: Api) -> bool:
    """Return whether the cluster has LeaderWorkerSets."""
    resources = (api.get(f"/apis/{API_VERSION}") or {}).get("resources", ())
    return "leaderworkersets" in {resource["name"] for resource in resources}


def install(target: Target, api: Api) -> None:
    """Install the controller in place of what an interrupted run left, and wait until its webhooks answer."""
    uninstall(target)
    places = Places.from_env()
    manifests = controller.manifests(places, controller.bring_image(places))
    target.kubectl("apply", "--server-side", "--filename", "-", stdin=manifests)
    until("the webhooks of LeaderWorkerSets answer", lambda: _defaulted(api), seconds=120)


def _defaulted(api: Api) -> bool | str:
    """Return whether the webhook adds its defaults: the API server calls it a moment after its configuration exists."""
    pod = {"containers": [{"name": "none", "image": "none"}]}
    probe = leader_worker_set("default", "probe", 1, pod)
    try:
        answer = api.request("POST", f"{path('default')}?dryRun=All", probe)
    except ApiError as error:
        return str(error)
    return "networkConfig" in answer["spec"]


def uninstall(target: Target) -> None:
    """Remove the controller with all LeaderWorkerSets, and wait until they are gone."""
    target.kubectl("delete", ",".join(KINDS), "--selector", LABEL)
