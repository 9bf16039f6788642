"""Detached processes of the cluster, recorded by id and start time and ended by that record."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.components.parts import Part

STAT_STATE, STAT_STARTED = 0, 19
"""Fields of /proc/<pid>/stat after the program's name (proc(5): fields 3 and 22)."""


@dataclass(frozen=True)
class Recorded:
    """A process by its id, its start in clock ticks since boot and the boot id, so that a reused pid does not match."""

    name: str
    pid: int
    started: str
    boot: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return self.boot == boot_id() and _started(self.pid) == self.started


def boot_id() -> str:
    """Return the kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start(part: Part, run: Path) -> Recorded:
    """Start a part in a new session with its output in `log/<name>.log`, and record it."""
    for folder in ("log", "processes"):
        (run / folder).mkdir(parents=True, exist_ok=True)
    with (run / "log" / f"{part.name}.log").open("ab") as log:
        process = subprocess.Popen(
            part.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=run,
            env={**os.environ, **dict(part.environment)},
            start_new_session=True,
        )
    process.returncode = (
        0  # it outlives this process: suppresses the ResourceWarning of an unreaped child
    )
    recorded = Recorded(part.name, process.pid, _started(process.pid) or "", boot_id())
    (run / "processes" / f"{part.name}.json").write_text(json.dumps(recorded.__dict__))
    return recorded


def recorded(run: Path) -> dict[str, Recorded]:
    """Return what was recorded in a run folder, alive or not, by name."""
    by_name = {}
    for file in (run / "processes").glob("*.json"):
        try:
            by_name[file.stem] = Recorded(**json.loads(file.read_text()))
        except (ValueError, TypeError):
            file.unlink()  # truncated by a crash of the machine, which also ended the process
    return by_name


def send(process: Recorded, number: signal.Signals) -> None:
    """Send a signal if the process still is the one that was recorded."""
    if process.alive:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def end(process: Recorded, *, grace_seconds: float) -> None:
    """End a process: SIGTERM, then SIGKILL after the grace period."""
    send(process, signal.SIGCONT)
    send(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while process.alive and time.monotonic() < deadline:
        time.sleep(0.02)
    send(process, signal.SIGKILL)
    while process.alive:
        time.sleep(0.02)


def strays(tools: Path, run: Path) -> list[int]:
    """Return the ids of processes of the cluster's programs whose working directory is in a run folder, recorded or not."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            program, home = (_plain(folder / "exe"), _plain(folder / "cwd"))
        except OSError:
            continue
        ours = program.is_relative_to(tools) and home.is_relative_to(run)
        if ours and _started(int(folder.name)):
            pids.append(int(folder.name))
    return pids


def _plain(link: Path) -> Path:
    """Return the target of a link in /proc, also when the target was deleted."""
    return Path(str(link.readlink()).removesuffix(" (deleted)"))


def _started(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[STAT_STATE] in "ZX" else fields[STAT_STARTED]
