"""A layer is kept once in the builder and once in containerd; the layout between them is emptied."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.support.cluster.commands import CommandFailedError, streamed
from tests.support.cluster.images import load
from tests.support.cluster.images.saved import unpack, unpack_layers
from tests.support.cluster.places import Places

SMALL, LARGE = b"small", b"x" * (2 * load.LARGE_BYTES)


def archive(layers: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in layers.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def layout_with(folder: Path, **blobs: bytes) -> Path:
    place = folder / "blobs" / "sha256"
    place.mkdir(parents=True)
    for name, content in blobs.items():
        (place / name).write_bytes(content)
    return folder


def test_only_the_wanted_layers_of_a_stream_are_written(tmp_path: Path) -> None:
    stream = archive({"a.tar": SMALL, "b.tar": LARGE, "manifest.json": b"{}"})
    unpack_layers(io.BytesIO(stream), {"b", "missing"}, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").read_bytes() == LARGE


def test_an_archive_is_unpacked_as_it_is_read(tmp_path: Path) -> None:
    unpack(io.BytesIO(archive({"f1/layer.tar": LARGE, "manifest.json": b"{}"})), tmp_path)
    assert (tmp_path / "f1/layer.tar").read_bytes() == LARGE
    assert (tmp_path / "manifest.json").read_bytes() == b"{}"


def test_a_large_layer_is_emptied_and_keeps_its_name_and_size(tmp_path: Path) -> None:
    layout = layout_with(tmp_path, a=SMALL, b=LARGE)
    load.hollow(layout)
    large, small = layout / "blobs/sha256/b", layout / "blobs/sha256/a"
    assert large.stat().st_size == len(LARGE)
    assert load.is_hollow(large)
    assert small.read_bytes() == SMALL
    assert not load.is_hollow(small)


def test_an_emptied_layer_that_containerd_lost_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = layout_with(tmp_path, kept=LARGE, lost=LARGE, whole=SMALL)
    load.hollow(layout)
    monkeypatch.setattr("tests.support.cluster.host.sandbox.ctr", lambda *_: "sha256:kept\n")
    load.drop_hollow(Places(tmp_path), layout)
    assert {blob.name for blob in (layout / "blobs" / "sha256").iterdir()} == {"kept", "whole"}


def test_a_layout_that_is_not_there_yet_has_nothing_to_empty(tmp_path: Path) -> None:
    load.hollow(tmp_path / "none")


def test_what_follows_the_part_that_was_read_does_not_break_the_stream(tmp_path: Path) -> None:
    words = ["sh", "-c", "head -c 1000000 /dev/zero"]
    with streamed("zeros", words, tmp_path / "log") as stream:
        assert stream.read(2) == b"\0\0"


def test_a_stream_whose_program_fails_gives_its_last_words(tmp_path: Path) -> None:
    words = ["sh", "-c", "echo out; echo no such image >&2; exit 3"]
    with (
        pytest.raises(CommandFailedError, match=r"exit 3; .*\n.*no such image"),
        streamed("push", words, tmp_path / "log") as stream,
    ):
        assert stream.read() == b"out\n"
