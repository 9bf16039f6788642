"""`Payloads`: the content of files and answers, on a volume. Every call blocks on the disk: run it in a thread.

files/<file id>                   content of a file; complete once it has this name
answers/<batch id>/<segment>      lines that one process appended; only what the store refers to counts
parts/<random>                    content that is being written
"""

import errno
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from penstock_batches.errors import VolumeFull

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
STALE_PART_SECONDS: Final = 7200.0
"""Age from which a part is of an upload or a finalizer that was killed."""


class Payloads:
    """The payloads below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._files = folder / "files"
        self._answers = folder / "answers"
        self._parts = folder / "parts"
        self.last_free_bytes: int | None = None
        """Room on the volume when it was last measured."""

    def prepare(self) -> None:
        """Make the folders, remove stale parts, and measure the room."""
        for each in (self._files, self._answers, self._parts):
            each.mkdir(parents=True, exist_ok=True)
        self.remove_stale_parts()
        self.free_bytes()

    def remove_stale_parts(self) -> None:
        """Remove parts that no process writes any more."""
        for part in self._parts.iterdir():
            with suppress(FileNotFoundError):
                if part.stat().st_mtime < time.time() - STALE_PART_SECONDS:
                    part.unlink()

    def part(self) -> "Part":
        """Begin a file."""
        return Part(self._parts / secrets.token_hex(16), self._files)

    def path(self, file_id: str) -> Path:
        """Return the path of a file's content."""
        return self._files / file_id

    def delete(self, file_id: str) -> None:
        """Remove the content of a file, if it is there."""
        self.path(file_id).unlink(missing_ok=True)

    def read(self, file_id: str, offset: int, length: int) -> bytes:
        """Return `length` bytes at `offset`.

        Raises:
            FileNotFoundError: the content is gone.
        """
        with self.path(file_id).open("rb") as stream:
            stream.seek(offset)
            return stream.read(length)

    def segment(self, batch_id: str, name: str) -> "Segment":
        """Open a segment of answers for appending.

        Raises:
            VolumeFull: the volume has no room.
        """
        folder = self._answers / batch_id
        with _room():
            folder.mkdir(parents=True, exist_ok=True)
            return Segment(folder / name)

    @contextmanager
    def segments(self, batch_id: str) -> Iterator["SegmentReader"]:
        """Open the answers of a batch for reading."""
        reader = SegmentReader(self._answers / batch_id)
        try:
            yield reader
        finally:
            reader.close()

    def files_before(self, seconds: float) -> list[str]:
        """Return the files whose content is older than Unix time `seconds`."""
        return [path.name for path in self._files.iterdir() if path.stat().st_mtime < seconds]

    def answered_batches(self) -> list[str]:
        """Return the batches that have answers."""
        return [folder.name for folder in self._answers.iterdir()]

    def forget_answers(self, batch_id: str) -> None:
        """Remove the answers of a batch."""
        shutil.rmtree(self._answers / batch_id, ignore_errors=True)

    def free_bytes(self) -> int:
        """Measure and return how many bytes the volume has left."""
        free = self.last_free_bytes = shutil.disk_usage(self._files).free
        return free


class Part:
    """A file that is being written: no reader sees it before `commit`.

    The file is opened by the first write. A write may run in a thread whose caller was cancelled: `discard` waits for
    it, and ends the part.
    """

    def __init__(self, path: Path, files: Path) -> None:
        self._path = path
        self._files = files
        self._stream: BinaryIO | None = None
        self._ended = False
        self._lock = threading.Lock()
        self.size = 0

    def write(self, content: bytes) -> None:
        """Append `content`.

        Raises:
            VolumeFull: the volume has no room.
        """
        with self._lock, _room():
            self._opened().write(content)
            self.size += len(content)

    def commit(self, file_id: str) -> None:
        """Make it the content of a file; it survives a crash of the machine from here on.

        Raises:
            VolumeFull: the volume has no room.
        """
        with self._lock:
            stream = self._opened()
            with _room():
                stream.flush()
                os.fsync(stream.fileno())
            stream.close()
            self._path.rename(self._files / file_id)
        _sync_folder(self._files)

    def discard(self) -> None:
        """Remove it, unless it is committed."""
        with self._lock:
            self._ended = True
            if self._stream is not None:
                with suppress(OSError):
                    self._stream.close()
                self._path.unlink(missing_ok=True)

    def _opened(self) -> BinaryIO:
        if self._ended:
            raise ValueError("this part was discarded")
        if self._stream is None:
            self._stream = self._path.open("wb")
        return self._stream


class Segment:
    """Answers that this process appends; one call at a time."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._end = os.fstat(self._file).st_size

    def append(self, contents: Sequence[bytes]) -> list[int]:
        """Append `contents`; return the offset of each, once all are on the disk.

        Raises:
            VolumeFull: the volume has no room; the segment is as before.
        """
        offsets, end = [], self._end
        for content in contents:
            offsets.append(end)
            end += len(content)
        try:
            with _room():
                _write_all(self._file, b"".join(contents))
                os.fsync(self._file)
        except BaseException:
            os.ftruncate(self._file, self._end)
            raise
        self._end = end
        return offsets

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class SegmentReader:
    """Reads answers of a batch by segment and offset."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    def read(self, segment: str, offset: int, length: int) -> bytes:
        """Return an answer."""
        file = self._open.get(segment)
        if file is None:
            file = self._open[segment] = os.open(self._folder / segment, os.O_RDONLY)
        return os.pread(file, length, offset)

    def close(self) -> None:
        """Close the segments."""
        for file in self._open.values():
            os.close(file)
        self._open.clear()


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise VolumeFull("the volume of files and answers is full: delete files") from error
        raise


def _write_all(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
