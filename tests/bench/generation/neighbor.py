"""Cost of a busy neighbor process: the engine's in-process rate alone, and with a busy loop on another core.

Two processors may be hardware threads of one core, and share at least its power and memory. Any HTTP process next to
the engine therefore costs this much, whatever it does; the figure explains the HTTP line and has no target.

`python -m tests.bench.generation.neighbor MODEL DTYPE` prints the pairs in JSON.
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
"""Wait for the core's clock to adapt to its neighbor."""
COUNT = """
import os, signal, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.kill(os.getpid(), signal.SIGSTOP)
while True: pass
"""

Pair = tuple[float, float]
"""Tokens a second alone, and right afterwards with the neighbor."""


@dataclass(frozen=True)
class Neighbor:
    """Tokens a second, medians of interleaved runs."""

    model: str
    alone: float
    with_neighbor: float
    share: float
    """Median over the pairs of `with_neighbor` / `alone`."""


def measure(folder: Path, dtype: str, *, threads: int) -> Neighbor | None:
    """Measure in a separate process, like a peer; None without another core, or on failure."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    argv = [sys.executable, "-m", "tests.bench.generation.neighbor", str(folder.resolve()), dtype]
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, timeout=LIMIT_SECONDS, check=True
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return of_pairs(folder.name, json.loads(done.stdout.splitlines()[-1]))


def of_pairs(model: str, pairs: Sequence[Pair]) -> Neighbor | None:
    """Return the medians of pairs (alone, with neighbor), or None without pairs."""
    if not pairs:
        return None
    share = median(shared / alone for alone, shared in pairs)
    return Neighbor(
        model, median(alone for alone, _ in pairs), median(shared for _, shared in pairs), share
    )


def explained(share: object, busy: Neighbor | None) -> dict[str, object]:
    """Return HTTP's `share` of the engine's rate relative to the engine's rate with a neighbor, if both are known."""
    if busy is None or not isinstance(share, float):
        return {}
    return {"of_in_process_beside_a_neighbor": share / busy.share}


def seats(allowed: frozenset[int]) -> tuple[frozenset[int], int] | None:
    """Return the engine's processors and the neighbor's, or None with a single processor."""
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
    """Pin the engine to `ours`, so that the neighbor only affects resources that processors share."""
    os.sched_setaffinity(0, ours)
    peers = importlib.import_module("tests.bench.generation.peers.penstock")
    peer, requested = peers.Peer(folder, dtype), work("decode", STREAMS, VOCABULARY, QUICK)
    peer.run(requested)
    pairs, enough = list[Pair](), now() + ENOUGH_SECONDS
    with _stopped(theirs) as neighbor:
        while len(pairs) < PAIRS and now() < enough:
            alone = _rate(peer, requested)
            neighbor.send_signal(signal.SIGCONT)
            time.sleep(SETTLE_SECONDS)
            pairs.append((alone, _rate(peer, requested)))
            neighbor.send_signal(signal.SIGSTOP)
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
