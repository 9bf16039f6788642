"""Installs this checkout for the tests and the demo: images, CRDs, Prometheus, and the operator by its chart."""

import re
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from tests.support.kube.api import POOLS, Api, ApiError, Object
from tests.support.kube.namespaces import clear_namespaces
from tests.support.kube.pools import until
from tests.support.kube.target import Target

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "penstock"
CRDS = ROOT / "crds"
PROMETHEUS = ROOT / "tests" / "support" / "cluster" / "components" / "manifests" / "prometheus.yaml"
PROMETHEUS_IMAGE = "localhost/penstock-prometheus:dev"
"""The image name in the manifest."""
PROMETHEUS_DEPLOYMENT = "/apis/apps/v1/namespaces/monitoring/deployments/prometheus"
PROMETHEUS_SERVICE = "/api/v1/namespaces/monitoring/services/prometheus:9090"
PROMETHEUS_URL = "http://prometheus.monitoring.svc:9090"
RELEASE, OPERATOR_NAMESPACE = "penstock", "penstock-system"


@dataclass(frozen=True, slots=True)
class Images:
    """Names of this checkout's images in the cluster."""

    operator: str
    runtime: str
    prometheus: str
    gateway: str
    batches: str
    envoy: str

    @classmethod
    def of_checkout(cls) -> "Images":
        """Build the missing images, load them into the cluster, and return the names."""
        listing = subprocess.run(
            [sys.executable, "-m", "tests.support.cluster", "images"],
            stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
        ).stdout  # fmt: skip
        names = dict(re.findall(r"^(\w+)=(\S+)$", listing, re.MULTILINE))
        return cls(**{field.name: names[field.name] for field in fields(cls)})


def install_prometheus(target: Target, api: Api, images: Images) -> None:
    """Apply the test Prometheus and wait until it serves."""
    manifest = PROMETHEUS.read_text().replace(PROMETHEUS_IMAGE, images.prometheus)
    target.kubectl("apply", "-f", "-", stdin=manifest)
    until(
        "Prometheus available",
        lambda: _rolled(api.request("GET", PROMETHEUS_DEPLOYMENT)),
        seconds=120,
    )


def _rolled(deployment: Object) -> bool:
    """Return whether the newest template is rolled out."""
    status = deployment.get("status", {})
    observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return bool(observed and status.get("updatedReplicas") == status.get("readyReplicas") == 1)


def install_crds(api: Api) -> None:
    """Apply this checkout's CRDs, and wait until their objects are served, which is later than `Established`."""
    crds = [api.apply(yaml.safe_load(file.read_text())) for file in sorted(CRDS.glob("*.yaml"))]
    plurals = [crd["spec"]["names"]["plural"] for crd in crds]
    until("the CRDs are served", lambda: all(_served(api, plural) for plural in plurals))


def _served(api: Api, plural: str) -> bool:
    try:
        return api.get(f"{POOLS}/{plural}") is not None
    except ApiError:  # 429 while its storage begins
        return False


def clear_stage(target: Target, api: Api) -> None:
    """Remove what a demo or an interrupted run left on the project's cluster: two operators would act on the same pools."""
    if target.foreign:
        return
    api.delete("/api/v1/namespaces/penstock-demo")  # its pool would hold GPUs
    uninstall_operator(target)
    clear_namespaces(api)


def uninstall_operator(target: Target) -> None:
    """Remove the release if there is one."""
    target.helm("uninstall", RELEASE, "-n", OPERATOR_NAMESPACE, "--ignore-not-found", "--wait")


def install_operator(target: Target, images: Images) -> None:
    """Install or upgrade the chart with this checkout's images, and wait for the operator."""
    target.helm(
        "upgrade", "--install", RELEASE, CHART, "--namespace", OPERATOR_NAMESPACE,
        "--create-namespace", "--take-ownership", "--wait", "--timeout", "2m", *chart_values(images),
    )  # fmt: skip


def chart_values(images: Images) -> list[str]:
    """Return helm's --set arguments."""
    values = {
        **_image("image", images.operator),
        **_image("gateway.image", images.gateway),
        **_image("gateway.envoyImage", images.envoy),
        "gateway.envoyImage.registry": "",
        **_image("batches.image", images.batches),
        "defaultRuntimeImage": images.runtime,
        "prometheus.url": PROMETHEUS_URL,
    }
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def _image(value: str, image: str) -> dict[str, str]:
    repository, _, tag = image.rpartition(":")
    return {f"{value}.repository": repository, f"{value}.tag": tag}


def ensure_namespace(api: Api, name: str) -> None:
    """Create a namespace of restricted pod security, after an older one of this name is completely deleted."""
    path = f"/api/v1/namespaces/{name}"

    def settled() -> bool:
        existing = api.get(path)
        return existing is None or "deletionTimestamp" not in existing["metadata"]

    until(f"the old namespace {name} gone", settled, seconds=120)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    head = {"apiVersion": "v1", "kind": "Namespace"}
    api.apply({**head, "metadata": {"name": name, "labels": labels}})
