"""Location of the demo's load generator: this machine for the test cluster, a pod for a user's cluster.

The test cluster's node is this machine, so kube-proxy's rules route a Service's address from here and
connections spread over the pods as they do inside. On a user's cluster `kubectl port-forward` would pin
everything to one pod, so the generator runs in a pod there; `kubectl exec` transfers its commands and
reports, and a broken exec stream ends the demo with an error instead of an estimated result.
"""

import json
import sys
from pathlib import Path

from tests.support.kube.api import Api, Object
from tests.support.kube.pools import is_ready, until
from tests.support.kube.target import Target

NAME = "penstock-load"
FOLDER = "/load"
SOURCES = Path(__file__).parents[1] / "support" / "load"


def runner(target: Target, api: Api, namespace: str, image: str) -> tuple[str, ...]:
    """Return the command that runs Python at the generator's location."""
    if not target.foreign:
        return (sys.executable,)
    for manifest in (_sources(namespace), _pod(namespace, image)):
        target.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    path = f"/api/v1/namespaces/{namespace}/pods/{NAME}"
    until("the load generator's pod ready", lambda: is_ready(api.request("GET", path)), seconds=120)
    return (*target.kubectl_command(), "exec", "-i", "-n", namespace, NAME, "--", "python3")


def _sources(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace},
        "data": {file.name: file.read_text() for file in sorted(SOURCES.glob("*.py"))},
    }


def _pod(namespace: str, image: str) -> Object:
    container = {
        "name": "load",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", "import time; time.sleep(7200)"],
        "workingDir": FOLDER,
        "volumeMounts": [{"name": "sources", "mountPath": f"{FOLDER}/tests/support/load"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "sources", "configMap": {"name": NAME}}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        },
    }
