"""`kubectl penstock` explains a pool's decisions with their history and simulates policies on it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.install import PROMETHEUS_URL
from tests.support.kube.pools import until
from tests.support.kube.target import Target
from tests.support.load.load import Load

SCALING = {"mode": "Auto", "algorithm": "CapacityAtObjective", "maxReplicas": 2}
OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 1000}]


def plugin(target: Target, *words: str) -> str:
    where = ["--kubeconfig", target.kubeconfig] if target.kubeconfig else []
    context = ["--context", target.context] if target.context else []
    argv = [sys.executable, "-m", "penstock_kubectl", *words, *where, *context]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
async def test_a_decision_is_explained_with_history_and_simulated_on_it(
    make_pool: MakePool, target: Target, api: Api, tmp_path: Path, figure: Figure
) -> None:
    pool = make_pool(a=40, c=5, scaling=SCALING, objectives=OBJECTIVES)
    await asyncio.to_thread(pool.await_ready, 1)
    memory = f"/api/v1/namespaces/{pool.namespace}/configmaps/{pool.name}-penstock-memory"
    async with Load(pool.url(), pool.name, rate=30) as load:
        await asyncio.to_thread(
            until,
            "the curve published",
            lambda: "curve" in pool.status().get("scaling", {}),
            seconds=90,
        )
        await asyncio.to_thread(until, "the state saved", lambda: api.get(memory), seconds=90)
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    place = [pool.name, "-n", pool.namespace, "--prometheus", PROMETHEUS_URL]
    page = await asyncio.to_thread(plugin, target, "explain", *place, "--last", "5m")
    assert "rows/s" in page
    assert "█" in page
    assert "Last decision" in page
    words = [*place, "--last", "2m", "--json", str(tmp_path / "out.json"), "--start", "1"]
    output = await asyncio.to_thread(plugin, target, "simulate", *words)
    (case,) = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert case["requests"] > 0
    assert case["most_replicas"] >= 1
    figure(f"simulated on its own history: {output.strip().splitlines()[0]}")
