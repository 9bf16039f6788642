"""Training of the demonstration model in a Job, with the runtime's image, onto a claim that a pool serves from.

The Job has the share of one pod of the show, and mostly uses what they all leave. The test cluster has no storage
class, so its claim is bound to a folder of the cluster's run folder; on a user's cluster the default class provides it.
"""

from pathlib import Path

from tests.demo.story import CHAT_POOL, NAMESPACE
from tests.support.cluster.places import Places
from tests.support.kube.api import POOLS, Api, Object
from tests.support.kube.pools import until
from tests.support.kube.target import Target

NAME = "demo-model"
FOLDER = "demo"
"""Folder of the model on the claim."""
SECONDS = 60
"""Processor time of one core, at most."""
SOURCES = Path(__file__).parents[1] / "support" / "demo_model"
JOB_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{NAME}"
CLAIM_PATH = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/{NAME}"
VOLUME_PATH = f"/api/v1/persistentvolumes/{NAMESPACE}-{NAME}"
CHAT_PATH = f"{POOLS}/namespaces/{NAMESPACE}/inferencepools/{CHAT_POOL}"
SIZE = "1Gi"


class TrainingFailedError(RuntimeError):
    """The Job failed; the message contains its last condition."""


def start(target: Target, api: Api, image: str) -> None:
    """Create the claim and the Job, after those of an earlier demo and the pool that serves from them are gone."""
    for path in (CHAT_PATH, JOB_PATH, CLAIM_PATH):
        api.delete(path)
    _await_gone(api, "claim", CLAIM_PATH)
    if not target.foreign:
        api.delete(VOLUME_PATH)  # a volume is bound to one claim in its life
        _await_gone(api, "volume", VOLUME_PATH)
        _bind_folder(api)
    for manifest in (claim(foreign=target.foreign), sources(), job(image)):
        api.apply(manifest)


def state(api: Api) -> bool | str:
    """Return True once the model is there, or a text with the present state.

    Raises:
        TrainingFailedError: the Job gave up.
    """
    status = (api.get(JOB_PATH) or {}).get("status", {})
    for condition in status.get("conditions", ()):
        if condition["status"] == "True" and condition["type"] == "Failed":
            raise TrainingFailedError(condition.get("message", condition.get("reason", "")))
    return bool(status.get("succeeded")) or f"the training Job has the status {status}"


def claim(*, foreign: bool) -> Object:
    """Return the claim of the model."""
    own = {} if foreign else {"storageClassName": "", "volumeName": _volume_name()}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": SIZE}},
            **own,
        },
    }


def sources() -> Object:
    """Return the training program as a ConfigMap."""
    files = sorted([*SOURCES.glob("*.py"), *SOURCES.glob("*.txt")])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {file.name: file.read_text(encoding="utf-8") for file in files},
    }


def job(image: str) -> Object:
    """Return the Job, which meets the restricted level of pod security."""
    container = {
        "name": "train",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "tests.support.demo_model", f"/models/{FOLDER}"],
        "args": ["--seconds", str(SECONDS)],
        "workingDir": "/trainer",
        "env": [
            {"name": "OMP_NUM_THREADS", "value": "1"},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - in the container
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [
            {"name": "sources", "mountPath": "/trainer/tests/support/demo_model"},
            {"name": "models", "mountPath": "/models"},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - in the container
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "containers": [container],
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "volumes": [
            {"name": "sources", "configMap": {"name": NAME}},
            {"name": "models", "persistentVolumeClaim": {"claimName": NAME}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"backoffLimit": 1, "template": {"spec": pod}},
    }


def _await_gone(api: Api, what: str, path: str) -> None:
    until(f"the last demo's {what} gone", lambda: not api.get(path), seconds=120)


def _bind_folder(api: Api) -> None:
    """Offer a folder of the node, which `make cluster-down` removes, as the claim's volume."""
    folder = Places.from_env().run / "volumes" / NAME
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # the Job's user is not root
    name = _volume_name()
    api.apply({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": SIZE}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(folder)}, "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"namespace": NAMESPACE, "name": NAME},
        },
    })  # fmt: skip


def _volume_name() -> str:
    return f"{NAMESPACE}-{NAME}"
