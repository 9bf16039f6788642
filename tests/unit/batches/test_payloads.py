"""Content and answers on the volume."""

import errno
import os
import time
from pathlib import Path

import pytest

from penstock_batches.errors import VolumeFull
from penstock_batches.payloads import STALE_PART_SECONDS, Payloads


@pytest.fixture
def payloads(tmp_path: Path) -> Payloads:
    volume = Payloads(tmp_path)
    volume.prepare()
    return volume


def test_a_part_is_visible_once_it_is_committed(payloads: Payloads) -> None:
    part = payloads.part()
    part.write(b"abc")
    part.write(b"def")
    assert not payloads.path("file-1").exists()
    part.commit("file-1")
    part.discard()
    assert part.size == 6
    assert payloads.read("file-1", 2, 3) == b"cde"


def test_a_discarded_part_leaves_nothing(payloads: Payloads, tmp_path: Path) -> None:
    part = payloads.part()
    part.write(b"abc")
    part.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_segments_are_read_by_offset_and_go_on_after_a_restart(payloads: Payloads) -> None:
    segment = payloads.segment("batch_1", "one")
    assert segment.append([b"ab", b"cde"]) == [0, 2]
    segment.close()
    again = payloads.segment("batch_1", "one")
    assert again.append([b"f"]) == [5]
    again.close()
    with payloads.segments("batch_1") as reader:
        assert reader.read("one", 2, 3) == b"cde"
        assert reader.read("one", 5, 1) == b"f"
    assert payloads.answered_batches() == ["batch_1"]
    payloads.forget_answers("batch_1")
    assert payloads.answered_batches() == []


def test_a_full_volume_leaves_a_segment_as_it_was(
    payloads: Payloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = payloads.segment("batch_1", "one")
    segment.append([b"ab"])
    write = os.write

    def full(file: int, content: bytes) -> int:
        write(file, content[:1])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(VolumeFull, match="delete files"):
        segment.append([b"cde"])
    monkeypatch.undo()
    assert segment.append([b"fg"]) == [2]
    segment.close()
    with payloads.segments("batch_1") as reader:
        assert reader.read("one", 0, 9) == b"abfg"


def test_a_part_that_was_discarded_takes_no_late_write(tmp_path: Path) -> None:
    payloads = Payloads(tmp_path)
    payloads.prepare()
    part = payloads.part()
    part.write(b"begun")
    part.discard()
    with pytest.raises(ValueError, match="discarded"):
        part.write(b"late")
    assert list((tmp_path / "parts").iterdir()) == []


def test_parts_that_a_kill_left_are_removed(payloads: Payloads, tmp_path: Path) -> None:
    stale, fresh = (tmp_path / "parts" / name for name in ("stale", "fresh"))
    for path in (stale, fresh):
        path.write_bytes(b"begun")
    before = time.time() - STALE_PART_SECONDS - 60
    os.utime(stale, (before, before))
    payloads.remove_stale_parts()
    assert list((tmp_path / "parts").iterdir()) == [fresh]
