"""`StoreAddress` in a folder: where the ranks of several pods find the store of rank 0, in which they meet."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from penstock_runtime.engine.model import ModelLoadFailed

WAIT_SECONDS: Final = 300.0
"""Time for rank 0 to import torch and open its store, and for all ranks to reach it."""
_FILE: Final = "store-address"
_LOOK_SECONDS: Final = 0.02


class StoreAddress(NamedTuple):
    """Host and port of the store."""

    host: str
    port: int


def write_store_address(folder: Path, address: StoreAddress) -> None:
    """Write the address for the ranks of this pod, whole or not at all."""
    part = folder / f"{_FILE}.part"
    part.write_text(f"{address.port} {address.host}", encoding="ascii")
    part.replace(folder / _FILE)


def store_address(folder: Path) -> StoreAddress | None:
    """Return the address; None until it is written."""
    try:
        port, host = (folder / _FILE).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return None
    return StoreAddress(host, int(port))


def await_store_address(
    folder: Path,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> StoreAddress:
    """Wait for the address.

    Raises:
        ModelLoadFailed: it is not written within `WAIT_SECONDS`, or the folder is gone, as after the end of the pod's process.
    """
    deadline = clock() + WAIT_SECONDS
    while (address := store_address(folder)) is None:
        if clock() > deadline or not folder.exists():
            raise ModelLoadFailed(f"rank 0 has opened no store within {WAIT_SECONDS:.0f} s")
        sleep(_LOOK_SECONDS)
    return address
