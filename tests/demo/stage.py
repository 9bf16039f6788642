"""The demo's pool: the chart's samples in a separate namespace."""

import time

from tests.demo.story import NAMESPACE, POOL
from tests.support.kube.api import Api
from tests.support.kube.install import CHART, ensure_namespace
from tests.support.kube.pools import PoolHandle, until
from tests.support.kube.target import Target

SAMPLES = [CHART / "samples" / name for name in ("policy.yaml", "pool.yaml")]


def fresh_pool(target: Target, api: Api) -> tuple[PoolHandle, float]:
    """Apply the chart's samples in the demo's namespace; return the pool and the seconds until it is Ready behind its gateway.

    Objects of an earlier demo are deleted first, so that every run starts equal.
    """
    pool = PoolHandle(api, NAMESPACE, POOL)
    if api.get(pool.path):
        pool.delete()
    ensure_namespace(api, NAMESPACE)
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=penstock.dev/pool%3D{POOL}"
    until("the last demo's pods gone", lambda: not api.list(pods), seconds=120)
    began = time.monotonic()
    target.kubectl("apply", "-n", NAMESPACE, *(word for file in SAMPLES for word in ("-f", file)))
    if not _has_gpus(api):
        pool.edit(
            {"accelerator": {"count": 0}}
        )  # a cluster without GPUs: the accelerator is emulated anyway
    pool.await_condition("Ready", seconds=120)
    pool.await_condition("Routed", seconds=120)
    return pool, time.monotonic() - began


def _has_gpus(api: Api) -> bool:
    nodes = api.list("/api/v1/nodes")
    return any(int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in nodes)
