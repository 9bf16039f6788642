"""Runs a contender on one core, and the load generator on the other."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.http import bodies
from tests.bench.http.environments import python_of
from tests.bench.http.plan import BUILD, CLIENT_CORE, HERE, PEERS, SERVER_CORE, Contender

START_SECONDS: Final = 120.0


class DoesNotServeError(Exception):
    """A contender that does not start or answers wrongly; the message contains the reason."""


@dataclass(frozen=True)
class RunningContender:
    """A running contender."""

    contender: Contender
    port: int
    process: subprocess.Popen[bytes]
    bodies: Path

    def pids(self) -> list[int]:
        """Return the process and all its descendants."""
        pids, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            pids.append(pid)
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    todo += map(int, task.read_text().split())
        return pids


def generator() -> Path:
    """Compile the load generator if it is missing or older than its source; return its path."""
    source, program = HERE / "load.c", BUILD / "load"
    BUILD.mkdir(parents=True, exist_ok=True)
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-o", str(program), str(source), "-lm"], check=True)
    return program


def load(
    running: RunningContender,
    connections: int,
    seconds: float,
    rate: float = 0.0,
    patience: float = 0.0,
) -> dict[str, Any]:
    """Return the measurements of the load generator; `patience` is its LOAD_PATIENCE."""
    argv = [
        "taskset", "-c", str(CLIENT_CORE), str(generator()), "127.0.0.1", str(running.port),
        str(connections), str(seconds), str(rate), str(running.bodies), *map(str, running.pids()),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=60 + 3 * seconds,
            env={**os.environ, "LOAD_PATIENCE": str(patience)},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DoesNotServeError(
            f"{running.contender.name}: no end of {seconds:g} s of load"
        ) from error
    if done.returncode:
        raise DoesNotServeError(f"{running.contender.name}: {done.stderr.strip()}")
    measured: dict[str, Any] = json.loads(done.stdout)
    if measured["wrong"]:
        raise DoesNotServeError(f"{running.contender.name}: {measured['wrong']} answers are wrong")
    return measured


@contextlib.contextmanager
def serving(contender: Contender, requests: Path | None = None) -> Iterator[RunningContender]:
    """Run a contender in its own process group, which is killed at the end.

    `requests` is the file for the load generator; by default one for the network is written.

    Raises:
        DoesNotServeError: it did not answer correctly within START_SECONDS.
    """
    port = _free_port()
    python = python_of(contender.package)
    argv = [part.format(port=port, python=python) for part in contender.argv]
    environment = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: value.format(port=port) if value == "{port}" else value for name, value in contender.environment.items()},
    }  # fmt: skip
    if not contender.package:  # the sources that this bench was started with
        paths = (environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH"))
        environment["PYTHONPATH"] = ":".join(filter(None, paths))
    log = BUILD / "logs" / f"{contender.name.replace(' ', '-').replace(',', '')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["taskset", "-c", str(SERVER_CORE), *argv],
            cwd=PEERS, env=environment, stdout=stream, stderr=stream, start_new_session=True,
        )  # fmt: skip
    try:
        file = requests or bodies.write(contender, port, BUILD)
        running = RunningContender(contender, port, process, file)
        _wait(running, log)
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with contextlib.suppress(FileNotFoundError):
            (BUILD / f"bodies-{port}").unlink()


def _wait(running: RunningContender, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if running.process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", running.port), 1):
            sample = load(running, 1, 0.3)
            if sample["right"]:
                return
        time.sleep(0.3)
    words = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
    raise DoesNotServeError(f"{running.contender.name} does not serve: {words[0][:200]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if sys.platform != "linux":
    raise SystemExit("the bench reads /proc and pins cores: it runs on Linux")
