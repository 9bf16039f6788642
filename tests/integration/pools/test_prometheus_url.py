"""The Prometheus that an installation queries is in the status of its pools, even while it does not answer."""

from pathlib import Path

import pytest

from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, emulated, until

pytestmark = pytest.mark.integration

SILENT = "http://127.0.0.1:9"


def test_the_status_names_a_prometheus_that_does_not_answer(
    pool: PoolHandle,
    operator: OperatorProcess,
    kubeconfig: Path,
    system_namespace: str,
    tmp_path: Path,
) -> None:
    pool.apply(emulated(replicas=0))
    until("the pool is visited", lambda: "scalingMode" in pool.status(), seconds=30)
    assert "prometheusUrl" not in pool.status()
    settings = {"PENSTOCK_PROMETHEUS_URL": SILENT}
    other = OperatorProcess(kubeconfig, system_namespace, tmp_path, "other", settings)
    with operator.down():
        other.start()
        try:
            until("the URL", lambda: pool.status().get("prometheusUrl") == SILENT, seconds=40)
        finally:
            other.stop()
