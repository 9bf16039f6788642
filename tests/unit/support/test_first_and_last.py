"""Begin and end of what the processes of a run share."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.first_and_last import first_and_last

PROGRAM = """
import sys, time
from pathlib import Path
from tests.support.first_and_last import first_and_last
folder = Path(sys.argv[1])
def note(word):
    with (folder / "log").open("a") as log:
        log.write(word + "\\n")
def begin():
    note("begins")
    time.sleep(0.5)
    note("begun")
with first_and_last(folder, begin, lambda: note("ended")):
    note("used")
    time.sleep(1)
"""
CHECKOUT = Path(__file__).parents[3]


def test_of_several_processes_the_first_begins_and_the_last_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    processes = [subprocess.Popen(command, cwd=CHECKOUT) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "log").read_text().split() == ["begins", "begun", "used", "used", "used", "ended"]  # fmt: skip


def test_a_failure_to_begin_leaves_it_to_the_next(tmp_path: Path) -> None:
    calls: list[str] = []

    def broken() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"), first_and_last(tmp_path, broken, broken):
        pass
    with first_and_last(tmp_path, lambda: calls.append("begin"), lambda: calls.append("end")):
        calls.append("use")
    assert calls == ["begin", "use", "end"]


def test_after_the_last_the_next_begins_again(tmp_path: Path) -> None:
    calls: list[str] = []
    for _ in range(2):
        with first_and_last(tmp_path, lambda: calls.append("begin"), lambda: calls.append("end")):
            pass
    assert calls == ["begin", "end", "begin", "end"]
