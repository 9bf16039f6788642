"""How the valves stand, watched all the time, past an API server that does not answer."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.bench.faults.outcome import Valves
from tests.support.kube.api import ApiError
from tests.support.kube.pools import PoolHandle

EVERY_SECONDS = 0.5


@dataclass(slots=True)
class FaultWatch:
    """What was seen: how they stood first, and each change."""

    changes: list[Valves] = field(default_factory=list)

    def add(self, now: Valves) -> None:
        """Keep what differs from the last."""
        if not self.changes or _standing(self.changes[-1]) != _standing(now):
            self.changes.append(now)


def _standing(one: Valves) -> tuple[int, int]:
    return one.replicas, one.cap


@contextmanager
def watching(pool: PoolHandle) -> Iterator[FaultWatch]:
    """Watch a pool's valves from a thread."""
    seen, over, began = FaultWatch(), threading.Event(), time.monotonic()

    def look() -> None:
        deployment = pool.api.request("GET", pool.children["Deployment"])
        cap = int(pool.status()["batch"]["cap"])
        replicas = int(deployment["spec"]["replicas"])
        seen.add(Valves(round(time.monotonic() - began, 1), replicas, cap))

    def run() -> None:
        while not over.wait(EVERY_SECONDS):
            try:
                look()
            except (ApiError, ApiException, HTTPError, OSError):
                continue  # the API server's own fault is on the table: what it did not say is asked again

    look()
    thread = threading.Thread(target=run, name="watching")
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
