"""A continuous watch of cap and replicas, also while the API server fails."""

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
    """The initial cap and replicas, and each change."""

    changes: list[Valves] = field(default_factory=list)

    def add(self, now: Valves) -> None:
        """Record values that differ from the last ones."""
        if not self.changes or _standing(self.changes[-1]) != _standing(now):
            self.changes.append(now)


def _standing(values: Valves) -> tuple[int, int]:
    return values.replicas, values.cap


@contextmanager
def watching(pool: PoolHandle) -> Iterator[FaultWatch]:
    """Watch a pool's cap and replicas from a thread."""
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
                continue  # the API server may be the injected fault: retry

    look()
    thread = threading.Thread(target=run, name="watching")
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
