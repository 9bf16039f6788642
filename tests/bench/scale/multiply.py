"""From one whole pool to thousands, by way of etcd."""

import time
from collections.abc import Iterator
from functools import partial

from tests.bench.scale import store
from tests.bench.scale.copies import Copy, Original, batches, copy
from tests.bench.scale.plane import NAMESPACE
from tests.bench.scale.pods import Pods
from tests.support.kube.api import Api
from tests.support.kube.pools import until

NAME = "pool-0"
EVENTS = "/registry/events/"
SERVED_SECONDS = 600.0


def multiply(api: Api, pods: Pods, size: int) -> float:
    """Copy the pool `pool-0` until there are `size`, its pod answering for all of theirs; return the seconds it took.

    Neither operator nor controllers may run meanwhile: they would see copies in part, and make what is not there yet.
    """
    began = time.monotonic()
    original = Original.of(NAME, _stored(), time.time())
    for portion in batches(_copies(original, pods, size), store.MOST_BYTES):
        store.write(portion)
    for path in ("/api/v1/pods", "/apis/apps/v1/deployments"):
        until(f"{size} at {path}", partial(_served, api, path, size), seconds=SERVED_SECONDS)
    return time.monotonic() - began


def _stored() -> dict[str, str]:
    """Return everything that is stored of the pool, and nothing of what is told about it."""
    found: dict[str, str] = {}
    for key in store.keys("/registry/"):
        if f"/{NAMESPACE}/{NAME}" in key and not key.startswith(EVENTS):
            found |= store.read(key)
    return found


def _copies(original: Original, pods: Pods, size: int) -> Iterator[Copy]:
    generation = pods.generations.get(original.pod_ip, 0)
    for number in range(1, size):
        ip = pods.next_address()
        one = copy(original, f"pool-{number}", number, ip)
        pods.adopt(one.pod_uid, ip, generation)
        yield one


def _served(api: Api, path: str, size: int) -> bool | str:
    page = api.request("GET", f"{path}?limit=1")
    found = len(page["items"]) + (page["metadata"].get("remainingItemCount") or 0)
    return found == size or f"{found} of {size}"
