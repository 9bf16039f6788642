"""Cost of a busy neighbour process: the engine's in-process rate alone, and with a busy loop on another core.

Two processors may be hardware threads of one core, and share at least its power and memory. Any HTTP process next to
the engine therefore costs this much, whatever it does; the figure explains the HTTP line and has no target.

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
from time import perf_counter as now

from tests.bench.generation.workload import QUICK, Work, work

PAIRS = 5
ENOUGH_SECONDS = 6.0
"""Time after which no further pair starts."""
STREAMS = 32
VOCABULARY = 8192
LIMIT_SECONDS = 120
SETTLE_SECONDS = 0.05
"""Wait for the core's clock to adapt to its neighbour."""
COUNT = """
import os, signal, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.kill(os.getpid(), signal.SIGSTOP)
while True: pass
"""

Pair = tuple[float, float]
"""Tokens a second alone, and right afterwards with the neighbour."""


@dataclass(frozen=True)
class Neighbour:
    """Tokens a second, medians of interleaved runs."""

    model: str
    alone: float
    with_neighbour: float
    share: float
    """Median over the pairs of `with_neighbour` / `alone`."""


def measure(folder: Path, dtype: str, *, threads: int) -> Neighbour | None:
    """Measure in a separate process, like a peer; None without another core, or on failure."""
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
    """Return the medians of pairs (alone, with neighbour), or None without pairs."""
    if not pairs:
        return None
    share = median(shared / alone for alone, shared in pairs)
    return Neighbour(
        model, median(alone for alone, _ in pairs), median(shared for _, shared in pairs), share
    )


def explained(share: object, busy: Neighbour | None) -> dict[str, object]:
    """Return HTTP's `share` of the engine's rate relative to the engine's rate with a neighbour, if both are known."""
    if busy is None or not isinstance(share, float):
        return {}
    return {"of_in_process_beside_a_neighbour": share / busy.share}


def seats(allowed: frozenset[int]) -> tuple[frozenset[int], int] | None:
    """Return the engine's processors and the neighbour's, or None with a single processor."""
    if len(allowed) < 2:
        return None
    theirs = max(allowed)
    return allowed - {theirs}, theirs


def main() -> int:
    """Print the pairs."""
    folder, dtype = Path(sys.argv[1]), sys.argv[2]
    placement = seats(frozenset(os.sched_getaffinity(0)))
    pairs = [] if placement is None else _pairs(folder, dtype, *placement)
    sys.stdout.write(json.dumps(pairs) + "\n")
    return 0


def _pairs(folder: Path, dtype: str, ours: frozenset[int], theirs: int) -> list[Pair]:
    """Pin the engine to `ours`, so that the neighbour only affects resources that processors share."""
    os.sched_setaffinity(0, ours)
    peers = importlib.import_module("tests.bench.generation.peers.penstock")
    peer, requested = peers.Peer(folder, dtype), work("decode", STREAMS, VOCABULARY, QUICK)
    peer.run(requested)
    pairs, enough = list[Pair](), now() + ENOUGH_SECONDS
    with _stopped(theirs) as neighbour:
        while len(pairs) < PAIRS and now() < enough:
            alone = _rate(peer, requested)
            neighbour.send_signal(signal.SIGCONT)
            time.sleep(SETTLE_SECONDS)
            pairs.append((alone, _rate(peer, requested)))
            neighbour.send_signal(signal.SIGSTOP)
    return pairs


def _rate(peer: object, requested: Work) -> float:
    return requested.counted / peer.run(requested)  # type: ignore[attr-defined, no-any-return]


@contextmanager
def _stopped(cpu: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a stopped process that runs a busy loop on `cpu` when continued."""
    with subprocess.Popen([sys.executable, "-c", COUNT, str(cpu)]) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
