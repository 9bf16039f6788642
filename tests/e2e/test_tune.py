"""`kubectl penstock tune` on a served pool: its own pod measures, the pool's pods are not touched, and the result runs in shadow."""

import json
import subprocess
import sys

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.target import Target

OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 20_000}]


def tune(target: Target, pool: PoolHandle, *words: str) -> subprocess.Popen[str]:
    where = ["--kubeconfig", target.kubeconfig] if target.kubeconfig else []
    context = ["--context", target.context] if target.context else []
    argv = [
        sys.executable,
        "-m",
        "penstock_kubectl",
        "tune",
        pool.name,
        "-n",
        pool.namespace,
        *words,
    ]
    return subprocess.Popen(
        [*argv, *where, *context], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def pods(api: Api, namespace: str, selector: str) -> list[Object]:
    return api.list(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")


@pytest.mark.long
def test_a_pool_is_tuned_by_a_pod_of_its_own_that_continues_after_a_kill(
    make_pool: MakePool, target: Target, api: Api, figure: Figure
) -> None:
    pool = make_pool(replicas=1, objectives=OBJECTIVES)
    pool.await_ready(1)
    (serving,) = pods(api, pool.namespace, f"penstock.dev/pool={pool.name}")
    of_job = f"batch.kubernetes.io%2Fjob-name%3D{pool.name}-tune"
    trials = f"/api/v1/namespaces/{pool.namespace}/configmaps/{pool.name}-tune"

    def kept() -> int:
        stored = api.get(trials) or {"data": {"study.json": '{"tried": []}'}}
        return len(json.loads(stored["data"]["study.json"])["tried"])

    with tune(
        target, pool, "--minutes", "0.7", "--clients", "4", "--output", "json", "--apply"
    ) as run:
        until("trials kept", kept, seconds=180)
        (first,) = pods(api, pool.namespace, of_job)
        before = kept()
        api.delete(f"/api/v1/namespaces/{pool.namespace}/pods/{first['metadata']['name']}")
        out, err = run.communicate(timeout=240)
    assert run.returncode == 0, err
    result = json.loads(out)
    assert len(result["tried"]) >= before
    assert 1 <= result["front"][0]["batch_size"] <= 4
    (still,) = pods(api, pool.namespace, f"penstock.dev/pool={pool.name}")
    assert still["metadata"]["uid"] == serving["metadata"]["uid"]
    assert still["status"]["containerStatuses"][0]["restartCount"] == 0
    policy = result["policy"]["metadata"]["name"]
    until(
        "the candidate in shadow",
        lambda: pool.status().get("candidate", {}).get("policy") == policy,
    )
    figure(f"tuned in a Job: {len(result['tried'])} settings, {before} before its pod was deleted")
    with tune(target, pool, "--delete") as run:
        assert "removed" in run.communicate(timeout=60)[0]
    api.delete(f"/apis/penstock.dev/v1alpha1/inferencepolicies/{policy}")
