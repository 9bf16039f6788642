"""Runs each peer in a separate process and reads its figures."""

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
"""Time limit of a peer with one model in one dtype, including compilation; figures printed before it count."""


@dataclass(frozen=True)
class PeerFigure:
    """Figure of one peer on one line."""

    line: str
    concurrency: int
    tokens_per_second: float
    idle_share: float | None
    all_seconds: tuple[float, ...]
    cpu_microseconds_a_token: float
    """CPU time of all threads per token, which is more robust than wall-clock time on a shared machine."""


@dataclass
class PeerOutcome:
    """A peer's figures for a model in a dtype, or the reason for their absence."""

    peer: str
    model: str
    dtype: str
    about: str = ""
    figures: list[PeerFigure] = field(default_factory=list)
    absent: str | None = None

    def figure(self, line: str, concurrency: int) -> PeerFigure | None:
        """Return the figure of one line, or None where the peer has none."""
        for figure in self.figures:
            if (figure.line, figure.concurrency) == (line, concurrency):
                return figure
        return None

    def rate(self, line: str, concurrency: int) -> float | None:
        """Return tokens a second, or None where the peer has no figure."""
        figure = self.figure(line, concurrency)
        return None if figure is None else figure.tokens_per_second


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
        output = error.stdout or b""
        _read_lines(outcome, output if isinstance(output, str) else output.decode())
        return outcome
    _read_lines(outcome, done.stdout)
    if done.returncode:
        words = done.stderr.strip().splitlines()
        outcome.absent = words[-1][:300] if words else f"exit status {done.returncode}"
    return outcome


def _path(peer: str) -> str:
    """Return PYTHONPATH: the checkout, and for our own peers also that of this process."""
    own = os.environ.get("PYTHONPATH") if peer in OURS else None
    return os.pathsep.join(filter(None, [str(Path.cwd()), own]))


def _read_lines(outcome: PeerOutcome, output: str) -> None:
    for line in output.splitlines():
        if line.startswith("{") and line.endswith("}"):
            _read(outcome, json.loads(line))


def _read(outcome: PeerOutcome, record: dict[str, Any]) -> None:
    if "about" in record:
        outcome.about = record["about"]
    elif "line" in record:
        outcome.figures.append(
            PeerFigure(
                record["line"],
                record["concurrency"],
                record["tokens"] / record["seconds"],
                record["idle_share"],
                tuple(record["all_seconds"]),
                1e6 * record["cpu_seconds"] / record["tokens"],
            )
        )
