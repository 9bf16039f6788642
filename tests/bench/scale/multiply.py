"""Multiplies one complete pool into thousands by writes to etcd."""

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
    """Copy the pool `pool-0` until there are `size` pools; return the seconds it took.

    Neither operator nor controllers may run meanwhile: they would see partial copies and create the missing objects.
    """
    began = time.monotonic()
    original = Original.of(NAME, _stored(), time.time())
    for portion in batches(_copies(original, pods, size), store.MAX_BYTES):
        store.write(portion)
    for path in ("/api/v1/pods", "/apis/apps/v1/deployments"):
        until(f"{size} at {path}", partial(_served, api, path, size), seconds=SERVED_SECONDS)
    return time.monotonic() - began


def _stored() -> dict[str, str]:
    """Return all stored objects of the pool, without its Events."""
    stored: dict[str, str] = {}
    for key in store.keys("/registry/"):
        if f"/{NAMESPACE}/{NAME}" in key and not key.startswith(EVENTS):
            stored |= store.read(key)
    return stored


def _copies(original: Original, pods: Pods, size: int) -> Iterator[Copy]:
    generation = pods.generations.get(original.pod_ip, 0)
    for number in range(1, size):
        ip = pods.next_address()
        copied = copy(original, f"pool-{number}", number, ip)
        pods.adopt(copied.pod_uid, ip, generation)
        yield copied


def _served(api: Api, path: str, size: int) -> bool | str:
    page = api.request("GET", f"{path}?limit=1")
    count = len(page["items"]) + (page["metadata"].get("remainingItemCount") or 0)
    return count == size or f"{count} of {size}"
