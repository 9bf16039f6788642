"""A pretended kubelet and scheduler: every pod is bound at once and Ready soon, as kwok would have it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from tests.bench.scale.pods import Pods
from tests.kube.api import Api, Object

UNBOUND = "/api/v1/pods?fieldSelector=spec.nodeName%3D&limit=500"
NODE = "pretended-1"
SIDE_BY_SIDE = 8


async def keep_serving(api: Api, pods: Pods) -> None:
    """Bind what is not bound, for ever."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        while True:
            waiting = await loop.run_in_executor(threads, api.list, UNBOUND)
            addressed = [(one, pods.address(one["metadata"]["uid"])) for one in waiting]
            await asyncio.gather(
                *(loop.run_in_executor(threads, _bring_up, api, *one) for one in addressed)
            )
            await asyncio.sleep(0.0 if waiting else 1.0)


def _bring_up(api: Api, pod: Object, ip: str) -> None:
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    head = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}}
    api.request("POST", f"{path}/binding", {**head, "target": target})
    api.merge(f"{path}/status", {"status": _status(pod, ip)})


def _status(pod: Object, ip: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    container = pod["spec"]["containers"][0]
    return {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": now,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds
        ],
        "containerStatuses": [
            {
                "name": container["name"], "image": container["image"], "imageID": f"{container['image']}@pretended",
                "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}},
            }
        ],
    }  # fmt: skip
