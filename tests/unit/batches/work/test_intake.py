"""What `LineReader` makes of blank and of padded lines."""

import io
from pathlib import Path

import pytest

from penstock_batches.records import Line
from penstock_batches.requests import MAX_LINE_BYTES, read_request
from penstock_batches.work.intake import GROUP_LINES, Check, LineReader
from tests.support.batches.served import jsonl, request_line

ENDPOINT = "/v1/completions"
PADDING = b" " * (MAX_LINE_BYTES + 3)


class CountingStream(io.BufferedReader):
    """A file that counts the calls of `readline`."""

    calls = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line."""
        CountingStream.calls += 1
        return super().readline(size)


def row(custom_id: str) -> bytes:
    return jsonl([request_line(custom_id)]).strip()


def read(path: Path, content: bytes) -> list[tuple[Line, bytes]]:
    path.write_bytes(content)
    reader, lines = LineReader(path), list[tuple[Line, bytes]]()
    while group := reader.group():
        lines += group
    return lines


def faults(lines: list[tuple[Line, bytes]]) -> dict[int, str]:
    check = Check(ENDPOINT, ("demo",))
    return {line.number: bad.fault.code for line, bad in check.faults(lines)}


def test_a_group_ends_after_as_many_lines_blank_ones_included(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"\n" * 20_000 + row("last"))
    monkeypatch.setattr(Path, "open", lambda path, _mode: CountingStream(io.FileIO(path)))
    reader, lines, calls = LineReader(path), list[int](), list[int]()
    CountingStream.calls = 0
    while (group := reader.group()) is not None:
        lines += [line.number for line, _ in group]
        calls.append(CountingStream.calls)
        CountingStream.calls = 0
    assert lines == [20_001]
    assert max(calls) <= GROUP_LINES
    assert reader.blank_lines == 20_000


def test_padding_hides_no_line(tmp_path: Path) -> None:
    lines = read(
        tmp_path / "input",
        b"\n".join(
            [
                PADDING + row("behind padding"),
                row("served"),
                row("before padding") + PADDING,
                row("before padding and more") + PADDING + b"}",
                PADDING + PADDING,
                row("last"),
            ]
        ),
    )
    assert [line.number for line, _ in lines] == [1, 2, 3, 4, 6]
    assert faults(lines) == dict.fromkeys((1, 3, 4), "line_too_long")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b" ", b" \n", b"  \n", b"x", b" x"])
def test_what_validation_accepts_is_what_a_dispatcher_reads(tmp_path: Path, end: bytes) -> None:
    """Around the longest line."""
    path = tmp_path / "input"
    line = row("a")
    line = line[:-1] + b" " * (MAX_LINE_BYTES - len(line)) + line[-1:]
    lines = read(path, line + end)
    if faults(lines):
        assert end in (b"  \n", b"x", b" x")
        return
    ((place, _),) = lines
    content = path.read_bytes()[place.offset :][: place.length]
    assert read_request(content.strip(), 1, ENDPOINT).custom_id == "a"
