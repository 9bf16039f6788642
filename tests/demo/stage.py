"""What must stand before the show: Prometheus, the operator by helm, the chart's samples, and traffic's way in."""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.demo.story import NAMESPACE, POOL
from tests.kube.api import Api
from tests.kube.pools import Pool, condition_of, until
from tests.kube.target import Target

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "penstock"
SAMPLES = CHART / "samples"
PROMETHEUS = ROOT / "tests" / "cluster" / "manifests" / "prometheus.yaml"
PROMETHEUS_SERVICE = "/api/v1/namespaces/monitoring/services/prometheus:9090"
PROMETHEUS_URL = "http://prometheus.monitoring.svc:9090"
RELEASE, OPERATOR_NAMESPACE = "penstock", "penstock-system"


@dataclass(frozen=True, slots=True)
class Images:
    """The images of this checkout, as the cluster knows them."""

    operator: str
    runtime: str

    @classmethod
    def of_checkout(cls) -> "Images":
        """Build what is not built, bring it into the cluster, and return the names."""
        told = subprocess.run(
            [sys.executable, "-m", "tests.cluster", "images"],
            stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
        ).stdout  # fmt: skip
        names = dict(re.findall(r"^(operator|runtime)[ =](\S+)$", told, re.MULTILINE))
        return cls(names["operator"], names["runtime"])


def install_prometheus(target: Target, api: Api) -> None:
    """Apply the test Prometheus and wait until it serves."""
    target.kubectl("apply", "-f", PROMETHEUS)
    path = "/apis/apps/v1/namespaces/monitoring/deployments/prometheus"
    until(
        "Prometheus available",
        lambda: condition_of(api.request("GET", path), "Available").get("status") == "True",
        seconds=120,
    )


def install_operator(target: Target, images: Images) -> None:
    """Install or upgrade the chart with this checkout's images, and wait for the operator."""
    target.helm(
        "upgrade", "--install", RELEASE, CHART, "--namespace", OPERATOR_NAMESPACE,
        "--create-namespace", "--wait", "--timeout", "3m", *chart_values(images),
    )  # fmt: skip


def chart_values(images: Images) -> list[str]:
    """Return helm's --set arguments."""
    return [
        "--set", f"image={images.operator}",
        "--set", f"runtime.image={images.runtime}",
        "--set", f"prometheus.url={PROMETHEUS_URL}",
    ]  # fmt: skip


def fresh_pool(target: Target, api: Api) -> tuple[Pool, float]:
    """Apply the chart's samples in a namespace of the demo; return the pool and the seconds to Ready.

    What an earlier demo left is deleted first, so that each begins alike.
    """
    pool = Pool(api, NAMESPACE, POOL)
    if api.get(pool.path):
        pool.delete()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    head = {"apiVersion": "v1", "kind": "Namespace"}
    api.apply({**head, "metadata": {"name": NAMESPACE, "labels": labels}})
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=penstock.dev/pool%3D{POOL}"
    until("the last demo's pods gone", lambda: not api.list(pods), seconds=120)
    began = time.monotonic()
    target.kubectl("apply", "-n", NAMESPACE, "-f", SAMPLES)
    pool.await_condition("Ready", seconds=120)
    return pool, time.monotonic() - began
