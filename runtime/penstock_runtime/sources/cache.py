"""`Cache`: the folder that pods download models into; one pod downloads, the others wait.

The lock is `flock` on a file in the cache, so it works wherever the volume is shared and is released when the process
ends. A file next to it has the progress of the download.
"""

import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from penstock_api.pod_contract import Loading, LoadStage
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.sources.errors import CacheFull
from penstock_runtime.sources.progress import DownloadProgress

POLL_SECONDS = 0.5
LOG_SECONDS = 1.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_GIGABYTE = 10**9


class Cache:
    """One cache volume."""

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        """`limit_bytes`: size limit of an ephemeral cache; None: the size of the file system."""
        self.folder = folder
        self._limit_bytes = limit_bytes

    @contextmanager
    def locked(self, model: str, meter: DownloadProgress) -> Iterator[None]:
        """Hold the lock of `model` (a file name); while another pod holds it, `meter` shows the progress of that pod.

        Raises:
            CacheFull, ModelLoadFailed: the volume has no room, or cannot be written or locked.
        """
        with self._writable():
            folder = self.folder / ".penstock"
            folder.mkdir(parents=True, exist_ok=True)
            progress = folder / f"{model}.json"
            with (folder / f"{model}.lock").open("a") as lock:
                _take(lock.fileno(), progress, meter)
                with _published(progress, meter):
                    yield

    def check_room(self, total_bytes: int, missing_bytes: int) -> None:
        """Check that a model of `total_bytes` fits, of which `missing_bytes` are not cached yet. Raises `CacheFull`."""
        if self._limit_bytes is not None and total_bytes > self._limit_bytes:
            raise CacheFull(
                f"the model has {_gigabytes(total_bytes)}, but cache.sizeLimit is {_gigabytes(self._limit_bytes)}:"
                " raise it, or use a persistent volume claim"
            )
        free = shutil.disk_usage(self.folder).free
        if missing_bytes > free:
            raise CacheFull(
                f"{_gigabytes(missing_bytes)} remain to be downloaded, but the cache has {_gigabytes(free)} free:"
                " free up space, or use a larger volume"
            )

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise CacheFull(
                    "the cache is full and the download was aborted: use a larger volume"
                ) from error
            raise ModelLoadFailed(
                f"the cache at '{self.folder}' cannot be used ({error.strerror or error}):"
                f" mount a volume that user {os.getuid()} may write and lock"
            ) from error


def record(file: Path, text: str) -> None:
    """Write a small file as a whole: if the volume is full or the node crashes, the earlier text remains."""
    if file.is_file() and file.read_bytes() == text.encode():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    partial.rename(file)


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk, where its file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot sync folders
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take(descriptor: int, progress: Path, meter: DownloadProgress) -> None:
    """Take the lock; while another pod holds it, follow that pod's progress."""
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
def _published(progress: Path, meter: DownloadProgress) -> Iterator[None]:
    """Write the progress of this pod every second for the pods that wait."""
    done = threading.Event()

    def publish() -> None:
        while not done.wait(LOG_SECONDS):
            with suppress(OSError):  # a full disk is reported by the download itself
                progress.write_text(meter.read().model_dump_json(by_alias=True), encoding="utf-8")

    publisher = threading.Thread(target=publish, name="publish-progress", daemon=True)
    publisher.start()
    try:
        yield
    finally:
        done.set()
        publisher.join()
        progress.unlink(missing_ok=True)


def _gigabytes(count: int) -> str:
    return f"{count / _GIGABYTE:.2f} GB"
