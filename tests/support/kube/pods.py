"""Metrics of pods over the API server's proxy, and container restarts."""

from collections.abc import Mapping
from typing import Any

from penstock_api.names import CLUSTER_PORT
from tests.support.kube.api import Api


def metrics(api: Api, pod: Mapping[str, Any]) -> dict[str, float]:
    """Return a pod's samples by metric name, summed over labels."""
    where = pod["metadata"]
    path = (
        f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}:{CLUSTER_PORT}/proxy/metrics"
    )
    return parse(api.text(path))


def parse(text: str) -> dict[str, float]:
    """Read the Prometheus text format (version 0.0.4), samples without timestamps."""
    samples: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            samples[name] = samples.get(name, 0.0) + float(value)
    return samples


def restarts(pod: Mapping[str, Any]) -> int:
    """Return the number of restarts of the pod's containers."""
    return sum(
        container["restartCount"] for container in pod["status"].get("containerStatuses", [])
    )
