"""A fake kubelet and scheduler: every pod is bound at once and becomes Ready soon, as with kwok."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from urllib3.exceptions import HTTPError

from tests.bench.scale.pods import Pods
from tests.support.kube.api import Api, ApiError, Object

PENDING = "/api/v1/pods?fieldSelector=status.phase%3DPending&limit=500"
NODE = "fake-1"
SIDE_BY_SIDE = 8
LOOK_SECONDS = 1.0


async def keep_serving(api: Api, pods: Pods) -> None:
    """Start pending pods repeatedly; a pod whose writes fail stays pending until the next iteration."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        while True:
            waiting = await loop.run_in_executor(threads, _pending, api)
            addressed = [
                (addressed_pod, pods.address(addressed_pod["metadata"]["uid"]))
                for addressed_pod in waiting
            ]
            done = await asyncio.gather(
                *(
                    loop.run_in_executor(threads, bring_up, api, *addressed_pod)
                    for addressed_pod in addressed
                )
            )
            pods.up.update(uid for uid in done if uid is not None)
            await asyncio.sleep(LOOK_SECONDS)


def _pending(api: Api) -> list[Object]:
    try:
        return api.list(PENDING)
    except (ApiError, HTTPError):
        return []


def bring_up(api: Api, pod: Object, ip: str) -> str | None:
    """Bind a pod and write a Ready status; return its UID, or None if a write failed."""
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    head = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}}
    try:
        if not pod["spec"].get("nodeName"):
            api.request("POST", f"{path}/binding", {**head, "target": target})
        api.merge(f"{path}/status", {"status": _status(pod, ip)})
    except (ApiError, HTTPError):
        return None
    return str(meta["uid"])


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
                "name": container["name"], "image": container["image"], "imageID": f"{container['image']}@fake",
                "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}},
            }
        ],
    }  # fmt: skip
