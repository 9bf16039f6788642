"""What any other process costs the engine: its rate in-process, alone and beside one that only counts on another core.

Two processors of a machine may be two hardware threads of one core, and share at least its power and its memory. So
whatever HTTP takes, this much is gone as soon as it runs beside the engine: a figure that explains, and has no target.

`python -m tests.bench.generation.neighbour MODEL DTYPE` prints the pairs in JSON.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.generation.clock import now
from tests.bench.generation.workload import QUICK, Work, work

PAIRS = 5
ENOUGH_SECONDS = 6.0
"""Then no other pair is begun."""
STREAMS = 32
VOCABULARY = 8192
LIMIT_SECONDS = 120
SETTLE_SECONDS = 0.05
"""For a core's clock to follow its neighbour's."""
COUNT = """
import os, signal, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.kill(os.getpid(), signal.SIGSTOP)
while True: pass
"""

Pair = tuple[float, float]
"""Tokens a second alone, and right after it beside the neighbour."""


@dataclass(frozen=True)
class Neighbour:
    """Tokens a second, medians of interleaved runs."""

    model: str
    alone: float
    beside: float
    share: float
    """The median of each pair's `beside` over `alone`."""


def measure(folder: Path, dtype: str, *, threads: int) -> Neighbour | None:
    """Measure in a process of its own, as peers are; None where there is no other core, or it could not be done."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    argv = [sys.executable, "-m", "tests.bench.generation.neighbour", str(folder.resolve()), dtype]
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, timeout=LIMIT_SECONDS, check=True
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return of_pairs(folder.name, json.loads(done.stdout.splitlines()[-1]))


def of_pairs(model: str, pairs: Sequence[Pair]) -> Neighbour | None:
    """Return the medians of pairs (alone, beside); None where there are none."""
    if not pairs:
        return None
    share = median(beside / alone for alone, beside in pairs)
    return Neighbour(
        model, median(alone for alone, _ in pairs), median(beside for _, beside in pairs), share
    )


def explained(share: object, beside: Neighbour | None) -> dict[str, object]:
    """Return HTTP's `share` of the engine's rate as a share of its rate beside a neighbour, where both are known."""
    if beside is None or not isinstance(share, float):
        return {}
    return {"of_in_process_beside_a_neighbour": share / beside.share}


def seats(allowed: frozenset[int]) -> tuple[frozenset[int], int] | None:
    """Return the engine's processors and the neighbour's; None where there is one alone."""
    if len(allowed) < 2:
        return None
    theirs = max(allowed)
    return allowed - {theirs}, theirs


def main() -> int:
    """Print the pairs."""
    folder, dtype = Path(sys.argv[1]), sys.argv[2]
    found = seats(frozenset(os.sched_getaffinity(0)))
    pairs = [] if found is None else _pairs(folder, dtype, *found)
    sys.stdout.write(json.dumps(pairs) + "\n")
    return 0


def _pairs(folder: Path, dtype: str, ours: frozenset[int], theirs: int) -> list[Pair]:
    """The engine and all its threads keep to `ours`, so that only what processors share is taken from it."""
    os.sched_setaffinity(0, ours)
    peers = importlib.import_module("tests.bench.generation.peers.penstock")
    peer, asked = peers.Peer(folder, dtype), work("decode", STREAMS, VOCABULARY, QUICK)
    peer.run(asked)
    pairs, enough = list[Pair](), now() + ENOUGH_SECONDS
    with _stopped(theirs) as neighbour:
        while len(pairs) < PAIRS and now() < enough:
            alone = _rate(peer, asked)
            neighbour.send_signal(signal.SIGCONT)
            time.sleep(SETTLE_SECONDS)
            pairs.append((alone, _rate(peer, asked)))
            neighbour.send_signal(signal.SIGSTOP)
    return pairs


def _rate(peer: object, asked: Work) -> float:
    return asked.counted / peer.run(asked)  # type: ignore[attr-defined, no-any-return]


@contextmanager
def _stopped(cpu: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that counts on `cpu` whenever it is let."""
    with subprocess.Popen([sys.executable, "-c", COUNT, str(cpu)]) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
