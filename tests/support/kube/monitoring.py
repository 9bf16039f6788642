"""The CRDs of the Prometheus Operator, from its Go module: the test cluster does not have them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.support.cluster.commands import output
from tests.support.kube.api import Api, path_of
from tests.support.kube.pools import until

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
KINDS = ("servicemonitors", "podmonitors", "prometheusrules")
SERVED = "/apis/monitoring.coreos.com/v1"


def monitoring_crds() -> list[Path]:
    """Return the files of ServiceMonitor, PodMonitor and PrometheusRule, downloaded by Go unless it has them."""
    module = output(["go", "mod", "download", "-json", MODULE], timeout_seconds=300)
    folder = Path(json.loads(module)["Dir"]) / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in KINDS]


@contextmanager
def monitoring_kinds(api: Api) -> Iterator[None]:
    """Install the CRDs that the API server lacks, and delete these at the end."""
    crds = [yaml.safe_load(file.read_text()) for file in monitoring_crds()]
    lacking = [crd for crd in crds if api.get(path_of(crd)) is None]
    for crd in lacking:
        api.create(crd)

    def served() -> bool:
        resources = (api.get(SERVED) or {}).get("resources", ())
        return {resource["name"] for resource in resources} >= set(KINDS)

    until("the kinds of the Prometheus Operator are served", served)
    try:
        yield
    finally:
        for crd in lacking:
            api.delete(path_of(crd))
