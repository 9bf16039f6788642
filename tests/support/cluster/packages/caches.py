"""The caches of the test cluster: how much they hold, and their removal."""

import shutil
import subprocess
from pathlib import Path

from tests.support.cluster.locks import locked
from tests.support.cluster.places import Places
from tests.support.cluster.progress import say

OWN = (
    "audit*", "bench-*", "bin", "containerd", "contexts", "go", "images", "kind*", "mypy", "setup.log", "tools",
)  # fmt: skip
"""Entries of the cache that belong to the project; the folder in PENSTOCK_CACHE may contain others."""


class StillUpError(Exception):
    """The cluster uses the cache; the message says how to end it."""


def size(places: Places) -> str:
    """Return how much disk the project's part of the cache takes, as `7.1G`."""
    argv = ["du", "-shc", *map(str, _own(places.cache))]
    lines = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
    return lines[-1].split()[0] if len(argv) > 2 and lines else "0"


def clean(places: Places) -> None:
    """Remove what was built and downloaded.

    Raises:
        StillUpError: the test cluster runs from it.
    """
    with locked(places, "cluster"), locked(places, "images"):
        if places.run.exists():
            raise StillUpError("the test cluster uses the cache: run `make cluster-down` first")
        before = size(places)
        for path in _own(places.cache):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    say(f"removed {before} from {places.cache}")


def _own(cache: Path) -> list[Path]:
    return [path for pattern in OWN for path in cache.glob(pattern)]
