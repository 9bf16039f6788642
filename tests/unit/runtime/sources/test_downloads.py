"""How a set of files is downloaded from a source that is made up: in which order they end, and after which failure."""

import errno
import os
import stat
import threading
import time
from pathlib import Path

import pytest
from typing_extensions import override

from penstock_runtime.sources.cache import Cache, record
from penstock_runtime.sources.downloads import ModelStore, Remote, RemoteFile, Sink
from penstock_runtime.sources.errors import ModelNotFound
from penstock_runtime.sources.progress import DownloadProgress

FILES = [RemoteFile(f"{n}.safetensors", 1, f"blob{n}", None) for n in range(200)]


class Missing(Remote):
    """A source without the second file, whose first takes until all others are read, or a second."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self._all = threading.Event()

    @override
    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        if file is FILES[1]:
            raise ModelNotFound(f"there is no '{file.path}'")
        if file is FILES[0]:
            self._all.wait(1.0)
        else:
            time.sleep(0.01)
        self.read.append(file.path)
        if len(self.read) == len(FILES) - 2:
            self._all.set()
        out.write(b"x")

    @override
    def is_current(self, file: RemoteFile) -> bool:
        return True


def test_a_file_that_fails_ends_the_download_before_the_files_that_wait(tmp_path: Path) -> None:
    remote = Missing()
    store = ModelStore(Cache(tmp_path, None), tmp_path / "blobs", DownloadProgress())
    with pytest.raises(ModelNotFound, match=r"1\.safetensors"):
        store.fetch(remote, FILES)
    assert len(remote.read) < len(FILES) / 2
    assert FILES[0].path in remote.read, "a file that was running has ended"


class BytesOfX(Remote):
    """A source whose files have one byte."""

    @override
    def append(self, file: RemoteFile, out: Sink, offset: int) -> None:
        out.write(b"x")

    @override
    def is_current(self, file: RemoteFile) -> bool:
        return True


def test_a_content_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_download_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool, int]] = []
    fsync, folder = os.fsync, tmp_path / "blobs"

    def remember(descriptor: int) -> None:
        state = os.fstat(descriptor)
        kind = "folder" if stat.S_ISDIR(state.st_mode) else "file"
        synced.append((kind, (folder / FILES[0].blob).exists(), state.st_size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", remember)
    ModelStore(Cache(tmp_path, None), folder, DownloadProgress()).fetch(BytesOfX(), FILES[:1])
    assert [each[:2] for each in synced] == [("file", False), ("folder", True)]
    assert synced[0][2] == 1


def test_a_record_that_cannot_be_written_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "refs" / "main"
    record(file, "first")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    record(file, "first")  # nothing to write
    with pytest.raises(OSError, match="No space left"):
        record(file, "second")
    assert file.read_text() == "first"
