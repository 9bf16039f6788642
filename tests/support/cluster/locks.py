"""A lock file that all clones on a machine share."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cluster.places import Places
from tests.support.cluster.progress import say


@contextmanager
def locked(places: Places, what: str) -> Iterator[None]:
    """Hold `<what>.lock` in the cache; the kernel releases it when the process exits."""
    places.cache.mkdir(parents=True, exist_ok=True)
    with (places.cache / f"{what}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that holds the lock of the {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
