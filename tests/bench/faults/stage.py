"""What every fault is done to: one pool under its law, one operator of this checkout, behind a proxy that can fail.

The operator is a process of this machine, so that what it says to the API server can be made to fail alone; its pods,
Prometheus and all else run in the test cluster. Its law is the one that acts on plain signals, free to take replicas away
within seconds: whatever a fault makes it believe shows.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.places import Places
from tests.support.kube import install, namespaces
from tests.support.kube.api import Api, Object
from tests.support.kube.fault_proxy import FaultProxy, fault_proxy
from tests.support.kube.install import Images
from tests.support.kube.loopback import write_kubeconfig
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, is_ready, until
from tests.support.kube.target import Target

REPLICAS = 3
RATE = 10.0
"""Requests a second. t(b) = 400 + 160 b ms, so a replica makes 4.8 rows a second at the largest cap: two cannot carry it, three
are 70 % busy. A pod that is gone for ten seconds leaves a queue, not a refusal."""
CURVE = (400, 160)
DEPTHS = (16, 17, 18)
"""Each edit takes the next, so that two of them never undo each other. A queue of 16 is 3.4 s of work, and 34 s of a pod that is ten times slower: within a client's patience."""
SCALING: Object = {
    "mode": "Auto", "algorithm": "UtilizationBand", "minReplicas": 1, "maxReplicas": 4,
    "queueDepth": {"targetPerReplica": 64}, "scaleDown": {"stabilizationSeconds": 5, "maxPercentPerMinute": 100},
}  # fmt: skip
BATCHING: Object = {"mode": "Auto", "size": {"min": 6, "max": 8}, "maxQueueDepth": DEPTHS[0]}
MEMORY = "640Mi"
SCRATCH = "16Mi"
CONFIG_MAP, FOLDER = "faults", "/faults"
POD_FILES = Path(__file__).parent / "pod"


@dataclass(frozen=True, slots=True)
class FaultStage:
    """Handles to all of it."""

    target: Target
    api: Api
    places: Places
    pool: PoolHandle
    operator: OperatorProcess
    proxy: FaultProxy
    prometheus_url: str
    folder: Path

    def victim(self) -> Object:
        """Return the pod that a fault falls on: the first by name of those that are Ready."""
        ready = [pod for pod in self.pool.pods() if is_ready(pod)]
        return min(ready, key=lambda pod: str(pod["metadata"]["name"]))

    def execute(self, pod: Object, program: str) -> str:
        """Run Python in a pod's container and return what it prints."""
        name = pod["metadata"]["name"]
        words = ("exec", "-n", self.pool.namespace, name, "--", "python3", "-S", "-c", program)
        return self.target.kubectl(*words)

    def depth(self) -> int:
        """Return the depth of the queue that the pool asks for."""
        return int(self.pool.get()["spec"]["batching"]["maxQueueDepth"])

    def let_go(self) -> None:
        """Let the law have fewer replicas, if it wants them: from now on the load is what holds them."""
        self.pool.edit({"scaling": {"minReplicas": 1}})

    def edit(self) -> int:
        """Change a live field; return the generation of the limits before."""
        before = int(self.pool.status()["batch"]["generation"])
        following = DEPTHS[(DEPTHS.index(self.depth()) + 1) % len(DEPTHS)]
        self.pool.edit({"batching": {"maxQueueDepth": following}})
        return before

    def await_as_wanted(self, seconds: float = 120) -> float:
        """Wait until all is as without a fault; return the seconds it took."""
        return until(
            "the pool is as without a fault",
            lambda: self.not_as_wanted() or True,
            seconds=seconds,
        )

    def not_as_wanted(self, after: int = 0) -> str:
        """Say what is not as it is without a fault; empty when all is: three that serve, seen, and obeying."""
        pool, pods = self.pool, self.pool.pods()
        batch = pool.status().get("batch", {})
        ready = sum(map(is_ready, pods))
        if not len(pods) == ready == REPLICAS:
            return f"{ready} of {len(pods)} pods ready"
        if batch.get("generation", 0) <= after or batch.get("acknowledgedPods") != REPLICAS:
            return f"{batch.get('acknowledgedPods')} pods obey generation {batch.get('generation')}"
        wanted = (("Ready", "AllReplicasReady"), ("LimitsApplied", "AllPodsAcknowledged"),
                  ("MetricsAvailable", "FromPrometheus"), ("Scaling", "Acting"))  # fmt: skip
        said = (pool.has_condition(kind, "True", reason) for kind, reason in wanted)
        return next((str(one) for one in said if one is not True), "")


def spec() -> Object:
    """Return the pool's spec."""
    a, c = CURVE
    container = {
        "env": [{"name": "PYTHONPATH", "value": FOLDER}],
        "resources": {"limits": {"memory": MEMORY}},
        "volumeMounts": [
            {"name": "faults", "mountPath": FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        ],
    }
    volumes = [
        {"name": "faults", "configMap": {"name": CONFIG_MAP}},
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": SCRATCH}},
    ]
    scaling = {**SCALING, "minReplicas": REPLICAS}  # until the load is there
    template = {"container": container, "volumes": volumes}
    drain = {"deadlineSeconds": 20}
    return emulated(a, c, scaling=scaling, batching=BATCHING, template=template, drain=drain)


@contextmanager
def stage(target: Target, folder: Path) -> Iterator[FaultStage]:
    """Set the stage on the test cluster, and clear it at the end."""
    api, images, places = target.api(), Images.of_checkout(), Places.from_env()
    install.install_prometheus(target, api, images)
    install.clear_stage(target, api)
    install.install_crds(api)
    with ExitStack() as held:
        system = held.enter_context(namespaces.namespace(api, "faults-system"))
        mine = held.enter_context(namespaces.namespace(api, "faults"))
        proxy = held.enter_context(fault_proxy(places.kubeconfig))
        settings = {
            "PENSTOCK_DEFAULT_RUNTIME_IMAGE": images.runtime,
            "PENSTOCK_PROMETHEUS_URL": prometheus_url(api),
        }
        behind = write_kubeconfig(folder / "proxy.kubeconfig", proxy.url)
        operator = OperatorProcess(behind, system, folder, settings=settings)
        operator.start()
        held.callback(_stop, operator)
        api.create(_pod_files(mine))
        pool = PoolHandle(api, mine, "chat")
        pool.apply(spec())
        held.callback(pool.delete)
        pool.await_ready(REPLICAS, seconds=180)
        url = settings["PENSTOCK_PROMETHEUS_URL"]
        yield FaultStage(target, api, places, pool, operator, proxy, url, folder)


def prometheus_url(api: Api) -> str:
    """Return the address of Prometheus' Service: this machine, the node, reaches it by that, not by name."""
    service = api.request("GET", install.PROMETHEUS_SERVICE.partition(":")[0])
    return f"http://{service['spec']['clusterIP']}:9090"


def _stop(operator: OperatorProcess) -> None:
    if operator.running:
        operator.stop()


def _pod_files(namespace: str) -> Object:
    data = {file.name: file.read_text() for file in sorted(POD_FILES.glob("*.py"))}
    meta = {"name": CONFIG_MAP, "namespace": namespace}
    manifest: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    return manifest
