"""`ModelStore`: downloads the files of a model, resumes interrupted ones, and verifies each before use."""

import hashlib
import io
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from penstock_runtime.sources.cache import Cache, sync_folder
from penstock_runtime.sources.errors import ModelCorrupt, ModelSourceUnreachable
from penstock_runtime.sources.progress import DownloadProgress

CONCURRENT_FILES = 4
MAX_STALLED_ATTEMPTS = 5
"""Consecutive attempts without progress after which the load fails."""
FIRST_PAUSE_SECONDS = 1.0
HASH_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class Digest:
    """Expected digest of a file."""

    algorithm: str
    hex: str


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a model at its source."""

    path: str
    """Path relative to the model's folder."""
    size: int
    blob: str
    """Name of the content in the cache; equal names mean equal contents."""
    digest: Digest | None


class Sink:
    """A file being downloaded, whose bytes are counted; huggingface_hub rewinds it if the server cannot resume."""

    def __init__(self, raw: IO[bytes], meter: DownloadProgress) -> None:
        self._raw = raw
        self._meter = meter

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._meter.add(len(data))
        return self._raw.write(data)

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._raw.tell()

    def seek(self, offset: int) -> int:
        """Set the offset from the beginning."""
        return self._raw.seek(offset)

    def truncate(self) -> int:
        """Discard the bytes after the current offset."""
        at = self._raw.tell()
        self._meter.add(at - self._raw.seek(0, io.SEEK_END))
        return self._raw.truncate(self._raw.seek(at))


class Remote(Protocol):
    """A source of files."""

    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        """Append the file from `offset` to `out`.

        Raises:
            ModelSourceUnreachable: the written bytes remain, and another attempt resumes after them.
            ModelLoadFailed: another attempt would not help.
        """

    def is_current(self, file: RemoteFile) -> bool:
        """Return whether the source has no digest of the file and still has the same content; called unless `file.digest` matches."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """Contents of one model in a cache."""

    cache: Cache
    folder: Path
    meter: DownloadProgress
    pause: Callable[[float], None] = time.sleep

    def fetch(self, remote: Remote, files: Iterable[RemoteFile]) -> None:
        """Download every missing file, a few concurrently; the first that fails lets no further one start.

        Raises:
            ModelLoadFailed: a file failed; those that were running have ended.
        """
        by_blob = {file.blob: file for file in files}
        self.folder.mkdir(parents=True, exist_ok=True)
        cached = sum(self._cached_bytes(file) for file in by_blob.values())
        total = sum(file.size for file in by_blob.values())
        self.cache.check_room(total, total - cached)
        with ThreadPoolExecutor(CONCURRENT_FILES, thread_name_prefix="fetches") as threads:
            loads = [threads.submit(self._complete, remote, file) for file in by_blob.values()]
            try:
                for done in as_completed(loads):
                    done.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _cached_bytes(self, file: RemoteFile) -> int:
        if self._is_cached(file):
            return file.size
        partial = self._partial(file)
        return min(partial.stat().st_size, file.size) if partial.exists() else 0

    def _is_cached(self, file: RemoteFile) -> bool:
        """Return whether the content is complete: a crash of the node may have truncated it."""
        blob = self.folder / file.blob
        return blob.exists() and blob.stat().st_size == file.size

    def _partial(self, file: RemoteFile) -> Path:
        return self.folder / f"{file.blob}.partial"

    def _complete(self, remote: Remote, file: RemoteFile) -> None:
        """Download one file completely, retrying as long as attempts make progress."""
        if self._is_cached(file):
            self.meter.add(file.size)
            return
        (self.folder / file.blob).unlink(missing_ok=True)
        stalled, reached = 0, -1
        while True:
            try:
                self._attempt(remote, file, first=reached < 0)
            except ModelSourceUnreachable:
                size = self._cached_bytes(file)
                stalled = stalled + 1 if size <= reached else 1
                reached = max(reached, size)
                if stalled >= MAX_STALLED_ATTEMPTS:
                    raise
                self.pause(FIRST_PAUSE_SECONDS * 2.0 ** (stalled - 1))
            else:
                return

    def _attempt(self, remote: Remote, file: RemoteFile, *, first: bool) -> None:
        partial = self._partial(file)
        if partial.exists() and partial.stat().st_size > file.size:
            partial.unlink()
        try:
            with partial.open("ab") as raw:
                offset = raw.tell()
                if first:
                    self.meter.add(offset)
                if offset < file.size:
                    remote.append(file, Sink(raw, self.meter), offset)
                raw.flush()
                os.fsync(raw.fileno())
            self._verify(remote, file, partial)
        except ModelCorrupt:
            self.meter.add(-partial.stat().st_size)
            partial.unlink()
            raise
        partial.rename(self.folder / file.blob)
        sync_folder(self.folder)

    def _verify(self, remote: Remote, file: RemoteFile, partial: Path) -> None:
        size = partial.stat().st_size
        if size < file.size:
            raise ModelSourceUnreachable(
                f"'{file.path}' ended after {size} of {file.size} bytes: the pod retries"
            )
        agrees = file.digest and _hash(partial, file.digest.algorithm) == file.digest.hex
        if size > file.size or not (agrees or remote.is_current(file)):
            raise ModelCorrupt(
                f"'{file.path}' changed while it was read, or does not match the digest of its source, and was discarded:"
                " the pod retries; if the error persists, upload the file again"
            )


def _hash(path: Path, algorithm: str) -> str:
    """Return the digest in hexadecimal; `git` is the object id of a git blob."""
    digest = hashlib.new("sha1" if algorithm == "git" else algorithm, usedforsecurity=False)
    if algorithm == "git":
        digest.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as content:
        while block := content.read(HASH_BYTES):
            digest.update(block)
    return digest.hexdigest()
