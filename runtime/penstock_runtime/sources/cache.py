"""The folder that pods of a node, or of several, fetch models into: one fetches, the others wait for it.

The lock is `flock` on a file of the cache itself, so it holds wherever the volume is shared and ends with its
holder's process. Beside it lies what the holder tells of its progress.
"""

import errno
import fcntl
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from penstock_api.limits import Loading, LoadStage
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.sources.errors import CacheFull
from penstock_runtime.sources.progress import DownloadProgress

POLL_SECONDS = 0.5
LOG_SECONDS = 1.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_GIGABYTE = 10**9


class Cache:
    """One cache volume as this pod sees it."""

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        """`limit_bytes` is what the volume may hold where it is this pod's own; None: its file system decides."""
        self.folder = folder
        self._limit_bytes = limit_bytes

    @contextmanager
    def held(self, model: str, meter: DownloadProgress) -> Iterator[None]:
        """Hold the one place of those who fetch `model` (a file's name); the meter shows the holder's progress.

        Raises:
            CacheFull, ModelLoadFailed: the volume has no room, or cannot be written or locked.
        """
        with self._writable():
            folder = self.folder / ".penstock"
            folder.mkdir(parents=True, exist_ok=True)
            progress = folder / f"{model}.json"
            with (folder / f"{model}.lock").open("a") as lock:
                _take(lock.fileno(), progress, meter)
                with _told(progress, meter):
                    yield

    def check_room(self, total_bytes: int, missing_bytes: int) -> None:
        """Return if a model of `total_bytes` fits, of which `missing_bytes` are still to come. Raises `CacheFull`."""
        if self._limit_bytes is not None and total_bytes > self._limit_bytes:
            raise CacheFull(
                f"the model is {_gigabytes(total_bytes)} and cache.sizeLimit {_gigabytes(self._limit_bytes)}:"
                " raise it, or use a claim"
            )
        free = shutil.disk_usage(self.folder).free
        if missing_bytes > free:
            raise CacheFull(
                f"{_gigabytes(missing_bytes)} are still to come and the cache has {_gigabytes(free)} free:"
                " make room, or use a larger volume"
            )

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise CacheFull(
                    "the cache ran out of room while the model was fetched: use a larger volume"
                ) from error
            raise ModelLoadFailed(
                f"the cache at '{self.folder}' cannot be used ({error.strerror or error}):"
                " mount a volume that user 65532 may write and lock"
            ) from error


def _take(descriptor: int, progress: Path, meter: DownloadProgress) -> None:
    """Take the lock; while another holds it, show what that one tells."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            meter.follow(_read(progress))
            time.sleep(POLL_SECONDS)
        else:
            return


def _read(progress: Path) -> Loading:
    with suppress(OSError, ValidationError):
        return Loading.model_validate_json(progress.read_bytes())
    return Loading(stage=LoadStage.WAITING)


@contextmanager
def _told(progress: Path, meter: DownloadProgress) -> Iterator[None]:
    """Tell those who wait, every second, how far this pod is."""
    done = threading.Event()

    def tell() -> None:
        while not done.wait(LOG_SECONDS):
            with suppress(OSError):  # a full disk must not hide behind this
                progress.write_text(meter.read().model_dump_json(by_alias=True), encoding="utf-8")

    teller = threading.Thread(target=tell, name="tells-progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
        progress.unlink(missing_ok=True)


def _gigabytes(count: int) -> str:
    return f"{count / _GIGABYTE:.2f} GB"
