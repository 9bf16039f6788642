"""A watch of an object's `status.batch` in a thread, with the time of each change."""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from tests.support.kube.api import Api
from tests.support.kube.pools import WaitTimeoutError

Batch = dict[str, Any]
WATCH_SECONDS = 3600


class EditWatch:
    """The changes that the watch has received."""

    def __init__(self) -> None:
        self.changes: queue.Queue[tuple[float, Batch]] = queue.Queue()
        self._last: tuple[float, Batch] = (0.0, {})

    def when(self, wanted: Callable[[Batch], bool], seconds: float) -> float:
        """Return the monotonic time of the first change with the wanted state, after the last returned one."""
        until = time.monotonic() + seconds
        while not wanted(self._last[1]):
            try:
                self._last = self.changes.get(timeout=max(until - time.monotonic(), 0.001))
            except queue.Empty:
                raise WaitTimeoutError(
                    f"not within {seconds:.0f} s; last seen: {self._last[1]}"
                ) from None
        return self._last[0]


@contextmanager
def watching(api: Api, path: str) -> Iterator[EditWatch]:
    """Watch the object at `path`."""
    watched_object = api.request("GET", path)
    collection, _, name = path.rpartition("/")
    watch = EditWatch()
    watch.changes.put((time.monotonic(), watched_object.get("status", {}).get("batch", {})))

    def read() -> None:
        version = watched_object["metadata"]["resourceVersion"]
        for event in api.watch(collection, name, version, WATCH_SECONDS):
            batch = event["object"].get("status", {}).get("batch", {})
            watch.changes.put((time.monotonic(), batch))

    Thread(target=read, name="watch", daemon=True).start()
    yield watch
