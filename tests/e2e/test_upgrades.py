"""Upgrades, rollbacks and reinstalls of the operator by helm restart no pod, and pools keep serving."""

import asyncio
import time

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube import install
from tests.support.kube.api import Api
from tests.support.kube.install import Images
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pods import restarts
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.target import Target
from tests.support.load.load import Load

pytestmark = pytest.mark.alone

RELEASE = (install.RELEASE, "-n", install.OPERATOR_NAMESPACE)
NEWER = "localhost/penstock-runtime:newer"
"""A default image that is never pulled: a pool's image is pinned at its first render."""


async def test_upgrade_rollback_and_uninstall_leave_pools_serving(
    target: Target, images: Images, operator: InstalledOperator, steady: PoolHandle, figure: Figure
) -> None:
    names = steady.pod_names()
    async with Load(steady.url(), steady.name, rate=20) as load:
        await load.next()
        changed = ("podAnnotations.example\\.com/turn=two", f"defaultRuntimeImage={NEWER}")
        await asyncio.to_thread(operator.change, *changed)
        await asyncio.to_thread(
            steady.await_condition, "UpToDate", "False", "NewTemplateAvailable", seconds=60
        )
        await asyncio.to_thread(target.helm, "rollback", *RELEASE, "--wait")
        await asyncio.to_thread(steady.await_condition, "UpToDate", "True", seconds=60)
        await asyncio.to_thread(target.helm, "uninstall", *RELEASE, "--wait")
        await asyncio.to_thread(until, "the operator gone", lambda: not operator.pods())
        await asyncio.sleep(3)
        await asyncio.to_thread(install.install_operator, target, images)
        began = time.monotonic()
        await asyncio.to_thread(steady.edit, {"batching": {"maxQueueDepth": 77}})
        await asyncio.to_thread(steady.await_condition, "Ready")
        figure(f"a reinstalled operator acts {time.monotonic() - began:.1f} s later")
        await asyncio.sleep(6)
    assert (load.final.lost, load.final.wrong, load.final.refused) == (0, 0, 0), load.final.notes
    assert steady.pod_names() == names
    assert all(restarts(pod) == 0 for pod in steady.pods())


def test_a_restarted_operator_adopts_existing_pools_and_applies_edits(
    operator: InstalledOperator, steady: PoolHandle
) -> None:
    steady.await_acknowledged()
    names, batch = steady.pod_names(), steady.status()["batch"]
    cap = batch["cap"] + 7  # different from any cap that the law can have set
    operator.stop()
    steady.edit({"batching": {"mode": "Fixed", "size": {"max": cap}}})
    operator.start()
    steady.await_acknowledged(batch["generation"], seconds=60)
    assert steady.status()["batch"]["cap"] == cap
    assert steady.pod_names() == names


@pytest.mark.long
def test_a_newer_runtime_is_used_only_by_a_pool_that_is_restarted(
    api: Api, images: Images, operator: InstalledOperator, make_pool: MakePool
) -> None:
    newer = f"{images.runtime.rpartition(':')[0]}:dev"  # the same image under another tag
    pools = [make_pool(name) for name in ("restarted", "waiting")]
    for pool in pools:
        pool.await_ready(1)
    names = [pool.pod_names() for pool in pools]
    try:
        operator.change(f"defaultRuntimeImage={newer}")
        for pool in pools:
            pool.await_condition("UpToDate", "False", "NewTemplateAvailable", seconds=60)
        note = {"metadata": {"annotations": {"penstock.dev/restartedAt": "2026-01-01T00:00:00Z"}}}
        api.merge(pools[0].path, note)
        pools[0].await_condition("UpToDate", "True", seconds=60)
        until("its pod is another", lambda: not pools[0].pod_names() & names[0])
        pools[0].await_ready(1)
        (pod,) = pools[0].pods()
        assert pod["spec"]["containers"][0]["image"] == newer
        assert pools[1].pod_names() == names[1]
        assert pools[1].has_condition("UpToDate", "False", "NewTemplateAvailable") is True
    finally:
        install.install_operator(operator.target, images)


ELSEWHERE = "penstock-elsewhere"


@pytest.mark.long
def test_a_release_of_another_name_in_another_namespace_takes_over_without_a_restart(
    api: Api, images: Images, operator: InstalledOperator, steady: PoolHandle, figure: Figure
) -> None:
    names, target = steady.pod_names(), operator.target
    target.helm("uninstall", *RELEASE)
    uninstalled_at = time.monotonic()
    other = ("other", "-n", ELSEWHERE)
    try:
        target.helm(
            "install", "other", install.CHART, *other[1:], "--create-namespace",
            "--take-ownership", "--wait", *install.chart_values(images),
        )  # fmt: skip
        steady.edit({"batching": {"maxQueueDepth": 77}})
        steady.await_condition("Ready", "True", seconds=30)
        figure(
            f"another release leads {time.monotonic() - uninstalled_at:.0f} s after the uninstall"
        )
        took = steady.await_acknowledged(
            seconds=180
        )  # with keys that the kubelet delivers to the pods
        figure(f"running pods accept its keys {took:.0f} s after it leads")
        assert steady.pod_names() == names
        assert all(restarts(pod) == 0 for pod in steady.pods())
    finally:
        target.helm("uninstall", *other, "--ignore-not-found", "--wait")
        api.delete(f"/api/v1/namespaces/{ELSEWHERE}")
        install.install_operator(target, images)
    steady.edit({"batching": {"maxQueueDepth": 78}})
    steady.await_acknowledged(seconds=180)
