"""Target discovery for the test Prometheus: a sidecar that lists the pods of pools and gateways.

Debian builds Prometheus without its Kubernetes discovery, so this lists the labelled pods once a second and writes
a `file_sd` file, which Prometheus follows. The labels are those of a `kubernetes_sd` relabelling.
"""

import json
import os
import ssl
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API_SERVER = "https://kubernetes.default.svc"
POOL_UID = "penstock.dev/pool-uid"
POOL = "penstock.dev/pool"
PORT_NAMES = ("control", "status")
"""Of the pods of pools and of gateways, as in the chart's PodMonitor."""
INTERVAL_SECONDS = 1.0


def targets(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a target for every port of these names of a running pod; `instance` stays ip:port."""
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
                "pool": pod["metadata"]["labels"].get(POOL, ""),
            },
        }
        for pod in pods
        if pod["status"].get("phase") == "Running" and pod["status"].get("podIP")
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port.get("name") in PORT_NAMES
    ]


def list_pods(context: ssl.SSLContext) -> list[dict[str, Any]]:
    """List the pods of all pools and gateways; the token is read each time, because the kubelet renews it."""
    query = urllib.parse.urlencode({"labelSelector": POOL_UID, "resourceVersion": "0"})
    token = (ACCOUNT / "token").read_text()
    request = urllib.request.Request(  # noqa: S310 - https, above
        f"{API_SERVER}/api/v1/pods?{query}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310
        items: list[dict[str, Any]] = json.load(answer)["items"]
    return items


def main(file: Path) -> None:
    """Keep `file` up to date until the process ends."""
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    written = None
    while True:
        try:
            current = json.dumps(targets(list_pods(context)), sort_keys=True)
            if current != written:
                unfinished = file.with_suffix(f".{os.getpid()}")
                unfinished.write_text(current)
                unfinished.replace(file)
                written = current
        except (OSError, ValueError, KeyError) as error:
            print(f"pods not listed: {error}", file=sys.stderr, flush=True)
        time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
