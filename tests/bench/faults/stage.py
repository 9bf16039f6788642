"""The stage of the fault table: a pool under its law, and an operator of this checkout behind a faulty proxy.

The operator is a local process, so that only its requests to the API server can be made to fail; pods, Prometheus and
everything else run in the test cluster. Its law acts on plain signals and may remove replicas within seconds, so that
wrong signals of a fault become visible.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.places import Places
from tests.support.kube import install, namespaces
from tests.support.kube.api import Api, Object
from tests.support.kube.faults.fault_proxy import FaultProxy, fault_proxy
from tests.support.kube.install import Images
from tests.support.kube.loopback import write_kubeconfig
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, is_ready, until
from tests.support.kube.target import Target

REPLICAS = 3
RATE = 10.0
"""Requests a second. t(b) = 400 + 160 b ms, so a replica serves 4.8 rows a second at the largest cap: two are too few, three
are 70 % busy. Ten seconds without one pod cause a queue, but no rejection."""
CURVE = (400, 160)
DEPTHS = (16, 17, 18)
"""Queue depths that edits cycle through, so that no two edits cancel. A queue of 16 is 3.4 s of work, or 34 s in a pod that
is ten times slower, which is within a client's timeout."""
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
    """Handles to cluster, pool, operator and proxy."""

    target: Target
    api: Api
    places: Places
    pool: PoolHandle
    operator: OperatorProcess
    proxy: FaultProxy
    prometheus_url: str
    folder: Path

    def victim(self) -> Object:
        """Return the pod that a fault affects: the first Ready one by name."""
        ready = [pod for pod in self.pool.pods() if is_ready(pod)]
        return min(ready, key=lambda pod: str(pod["metadata"]["name"]))

    def execute(self, pod: Object, program: str) -> str:
        """Run Python in a pod's container and return what it prints."""
        name = pod["metadata"]["name"]
        words = ("exec", "-n", self.pool.namespace, name, "--", "python3", "-S", "-c", program)
        return self.target.kubectl(*words)

    def depth(self) -> int:
        """Return the queue depth in the pool's spec."""
        return int(self.pool.get()["spec"]["batching"]["maxQueueDepth"])

    def let_go(self) -> None:
        """Lower minReplicas, so that only the load keeps the replicas from now on."""
        self.pool.edit({"scaling": {"minReplicas": 1}})

    def edit(self) -> int:
        """Change a live field; return the generation of the limits before."""
        before = int(self.pool.status()["batch"]["generation"])
        following = DEPTHS[(DEPTHS.index(self.depth()) + 1) % len(DEPTHS)]
        self.pool.edit({"batching": {"maxQueueDepth": following}})
        return before

    def await_as_wanted(self, seconds: float = 120) -> float:
        """Wait until the pool is in its normal state; return the seconds it took."""
        return until(
            "the pool is in its normal state",
            lambda: self.not_as_wanted() or True,
            seconds=seconds,
        )

    def not_as_wanted(self, after: int = 0) -> str:
        """Return the first difference from the normal state: three Ready pods with signals and acknowledged limits."""
        pool, pods = self.pool, self.pool.pods()
        batch = pool.status().get("batch", {})
        ready = sum(map(is_ready, pods))
        if not len(pods) == ready == REPLICAS:
            return f"{ready} of {len(pods)} pods ready"
        if batch.get("generation", 0) <= after or batch.get("acknowledgedPods") != REPLICAS:
            return f"{batch.get('acknowledgedPods')} pods acknowledged generation {batch.get('generation')}"
        wanted = (("Ready", "AllReplicasReady"), ("LimitsApplied", "AllPodsAcknowledged"),
                  ("MetricsAvailable", "FromPrometheus"), ("Scaling", "Acting"))  # fmt: skip
        states = (pool.has_condition(kind, "True", reason) for kind, reason in wanted)
        return next((str(state) for state in states if state is not True), "")


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
    """Create the stage on the test cluster, and remove it at the end."""
    api, images, places = target.api(), Images.of_checkout(), Places.from_env()
    install.install_prometheus(target, api, images)
    install.clear_stage(target, api)
    install.install_crds(api)
    with ExitStack() as stack:
        system = stack.enter_context(namespaces.namespace(api, "faults-system"))
        mine = stack.enter_context(namespaces.namespace(api, "faults"))
        proxy = stack.enter_context(fault_proxy(places.kubeconfig))
        settings = {
            "PENSTOCK_DEFAULT_RUNTIME_IMAGE": images.runtime,
            "PENSTOCK_PROMETHEUS_URL": prometheus_url(api),
        }
        behind = write_kubeconfig(folder / "proxy.kubeconfig", proxy.url)
        operator = OperatorProcess(behind, system, folder, settings=settings)
        operator.start()
        stack.callback(_stop, operator)
        api.create(_pod_files(mine))
        pool = PoolHandle(api, mine, "chat")
        pool.apply(spec())
        stack.callback(pool.delete)
        pool.await_ready(REPLICAS, seconds=180)
        url = settings["PENSTOCK_PROMETHEUS_URL"]
        yield FaultStage(target, api, places, pool, operator, proxy, url, folder)


def prometheus_url(api: Api) -> str:
    """Return the URL of Prometheus by its ClusterIP, because cluster DNS does not work on the node itself."""
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
