"""Files of a model, each fetched to its end, resumed where a try before stopped, and verified before it counts."""

import hashlib
import io
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from penstock_runtime.sources.cache import Cache
from penstock_runtime.sources.errors import ModelCorrupt, ModelSourceUnreachable
from penstock_runtime.sources.progress import DownloadProgress

AT_ONCE = 4
MAX_FUTILE_TRIES = 5
"""In a row, none of which brought a byte: then the pod ends, and says why."""
FIRST_PAUSE_SECONDS = 1.0
HASH_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file must hash to."""

    algorithm: str
    hex: str


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a model, where it is kept."""

    path: str
    """Relative, in the model's folder."""
    size: int
    blob: str
    """Name of its content in the cache: equal names are equal contents."""
    digest: Digest | None


class Sink:
    """A file being fetched, whose bytes are counted; huggingface_hub rewinds one whose server does not resume."""

    def __init__(self, raw: IO[bytes], meter: DownloadProgress) -> None:
        self._raw = raw
        self._meter = meter

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._meter.add(len(data))
        return self._raw.write(data)

    def tell(self) -> int:
        """Return where the next byte goes."""
        return self._raw.tell()

    def seek(self, offset: int) -> int:
        """Go to an offset from the beginning."""
        return self._raw.seek(offset)

    def truncate(self) -> int:
        """Throw away what lies behind the place where it is."""
        at = self._raw.tell()
        self._meter.add(at - self._raw.seek(0, io.SEEK_END))
        return self._raw.truncate(self._raw.seek(at))


class Remote(Protocol):
    """Where files come from."""

    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        """Write the file from `offset` on to `out`.

        Raises:
            ModelSourceUnreachable: what was written stays, and another try goes on from there.
            ModelLoadFailed: another try would not help.
        """

    def vouches_for(self, file: RemoteFile) -> bool:
        """Return whether `file.digest` is a digest of the content at all, asked when it does not agree."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """Where the contents of one model lie in a cache."""

    cache: Cache
    folder: Path
    meter: DownloadProgress
    pause: Callable[[float], None] = time.sleep

    def fetch(self, remote: Remote, files: Iterable[RemoteFile]) -> None:
        """Bring every file's content into the store, a few at once. Raises `ModelLoadFailed`."""
        wanted = {file.blob: file for file in files}
        self.folder.mkdir(parents=True, exist_ok=True)
        held = {blob: self._held(file) for blob, file in wanted.items()}
        total = sum(file.size for file in wanted.values())
        self.cache.check_room(total, total - sum(held.values()))
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetches") as threads:
            for done in [threads.submit(self._complete, remote, one) for one in wanted.values()]:
                done.result()

    def _held(self, file: RemoteFile) -> int:
        for path in (self.folder / file.blob, self._partial(file)):
            if path.exists():
                return min(path.stat().st_size, file.size)
        return 0

    def _partial(self, file: RemoteFile) -> Path:
        return self.folder / f"{file.blob}.partial"

    def _complete(self, remote: Remote, file: RemoteFile) -> None:
        """Fetch one file to its end, trying again for as long as tries bring something."""
        if (self.folder / file.blob).exists():
            self.meter.add(file.size)
            return
        fruitless, reached = 0, -1
        while True:
            try:
                self._try(remote, file, first=reached < 0)
            except ModelSourceUnreachable:
                held = self._held(file)
                fruitless = fruitless + 1 if held <= reached else 1
                reached = max(reached, held)
                if fruitless >= MAX_FUTILE_TRIES:
                    raise
                self.pause(FIRST_PAUSE_SECONDS * 2.0 ** (fruitless - 1))
            else:
                return

    def _try(self, remote: Remote, file: RemoteFile, *, first: bool) -> None:
        partial = self._partial(file)
        if partial.exists() and partial.stat().st_size > file.size:
            partial.unlink()
        with partial.open("ab") as raw:
            offset = raw.tell()
            if first:
                self.meter.add(offset)
            if offset < file.size:
                remote.append(file, Sink(raw, self.meter), offset)
        self._verify(remote, file, partial)
        partial.rename(self.folder / file.blob)

    def _verify(self, remote: Remote, file: RemoteFile, partial: Path) -> None:
        size = partial.stat().st_size
        if size < file.size:
            raise ModelSourceUnreachable(
                f"'{file.path}' ended after {size} of {file.size} bytes: the pod tries again by itself"
            )
        agrees = file.digest is None or _hash(partial, file.digest.algorithm) == file.digest.hex
        if size == file.size and (agrees or not remote.vouches_for(file)):
            return
        partial.unlink()
        self.meter.add(-size)
        raise ModelCorrupt(
            f"'{file.path}' is not what its source says it is, by its hash, and was thrown away: the pod tries"
            " again by itself; if that does not help, upload the file again"
        )


def _hash(path: Path, algorithm: str) -> str:
    """Return the digest in hexadecimal; `git` is git's own of a file, with its length before it."""
    digest = hashlib.new("sha1" if algorithm == "git" else algorithm, usedforsecurity=False)
    if algorithm == "git":
        digest.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as content:
        while block := content.read(HASH_BYTES):
            digest.update(block)
    return digest.hexdigest()
