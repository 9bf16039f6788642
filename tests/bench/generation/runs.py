"""Running the peers, each in a process of its own, and keeping what they say."""

import json
import os
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.generation.environments import OURS, VARIABLES, python_of
from tests.bench.generation.models import VOCABULARY
from tests.bench.generation.workload import WorkSize

LIMIT_SECONDS = 300
"""Of one peer with one model in one dtype, compiling included; what it said until then counts."""


@dataclass(frozen=True)
class PeerFigure:
    """One peer on one line."""

    line: str
    concurrency: int
    tokens_per_second: float
    idle_share: float | None
    all_seconds: tuple[float, ...]
    cpu_microseconds_a_token: float
    """Of all threads: what a machine that others use as well says more surely than its clock."""


@dataclass
class PeerOutcome:
    """What a peer said of one model in one dtype, or why it said nothing."""

    peer: str
    model: str
    dtype: str
    about: str = ""
    figures: list[PeerFigure] = field(default_factory=list)
    absent: str | None = None

    def figure(self, line: str, concurrency: int) -> PeerFigure | None:
        """Return the figure of one line, or None where the peer has none."""
        for one in self.figures:
            if (one.line, one.concurrency) == (line, concurrency):
                return one
        return None

    def rate(self, line: str, concurrency: int) -> float | None:
        """Return tokens a second, or None where the peer has no figure."""
        found = self.figure(line, concurrency)
        return None if found is None else found.tokens_per_second


def run(peer: str, folder: Path, dtype: str, size: WorkSize, *, threads: int) -> PeerOutcome:
    """Run `peer` on the model in `folder`."""
    outcome, python = PeerOutcome(peer, folder.name, dtype), python_of(peer)
    if python is None:
        outcome.absent = "not installed: python -m tests.bench.generation.environments"
        return outcome
    environment = {
        **os.environ,
        **VARIABLES.get(peer, {}),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONPATH": _path(peer),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    argv = [
        str(python),
        "-m",
        "tests.bench.generation.worker",
        peer,
        str(folder.resolve()),
        dtype,
        str(VOCABULARY),
        json.dumps(asdict(size)),
    ]
    try:
        done = subprocess.run(
            argv,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        outcome.absent = f"did not finish within {LIMIT_SECONDS} s"
        said = error.stdout or b""
        _read_lines(outcome, said if isinstance(said, str) else said.decode())
        return outcome
    _read_lines(outcome, done.stdout)
    if done.returncode:
        words = done.stderr.strip().splitlines()
        outcome.absent = words[-1][:300] if words else f"exit status {done.returncode}"
    return outcome


def _path(peer: str) -> str:
    """The checkout, and for our own peers what this process was given beside it."""
    own = os.environ.get("PYTHONPATH") if peer in OURS else None
    return os.pathsep.join(filter(None, [str(Path.cwd()), own]))


def _read_lines(outcome: PeerOutcome, said: str) -> None:
    for line in said.splitlines():
        if line.startswith("{") and line.endswith("}"):
            _read(outcome, json.loads(line))


def _read(outcome: PeerOutcome, said: dict[str, Any]) -> None:
    if "about" in said:
        outcome.about = said["about"]
    elif "line" in said:
        outcome.figures.append(
            PeerFigure(
                said["line"],
                said["concurrency"],
                said["tokens"] / said["seconds"],
                said["idle_share"],
                tuple(said["all_seconds"]),
                1e6 * said["cpu_seconds"] / said["tokens"],
            )
        )
