"""One peer in a process of its own: `python -m tests.bench.generation.worker PEER MODEL DTYPE VOCABULARY SIZE`.

Runs in whichever virtual environment has the peer, so nothing here but the peer's own module imports more than
the standard library. Prints one JSON object a line.
"""

import importlib
import json
import sys
from pathlib import Path
from time import process_time

from tests.bench.generation.workload import CONCURRENCY, LINES, QUICK, Work, WorkSize, work

LINE_SECONDS = 15.0
"""Slow peers with a large model would take hours of repeats; each line is run once at least."""


def main() -> int:
    """Print `about`, then a figure for each line and concurrency."""
    name, model, dtype, vocabulary, told = sys.argv[1:6]
    size = WorkSize(**json.loads(told))
    module = importlib.import_module(f"tests.bench.generation.peers.{name}")
    peer = module.Peer(Path(model), dtype)
    _say(about=peer.about)
    for concurrency in CONCURRENCY:
        for line in LINES:
            one = work(line, concurrency, int(vocabulary), size)
            if not _warm(peer, line, concurrency, int(vocabulary)):
                continue
            spent, times = process_time(), _times(peer, one, size.repeats)
            spent = process_time() - spent
            idle = peer.idle_share
            _say(
                line=line,
                concurrency=concurrency,
                tokens=one.counted,
                seconds=min(times),
                all_seconds=times,
                cpu_seconds=spent / len(times),
                idle_share=idle,
            )
    return 0


def _times(peer: object, asked: Work, repeats: int) -> list[float]:
    """Return the seconds of each repeat; once LINE_SECONDS have gone by there is no other."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < LINE_SECONDS:
        times.append(peer.run(asked))  # type: ignore[attr-defined]
    return times


def _warm(peer: object, line: str, concurrency: int, vocabulary: int) -> bool:
    """Run a little first, for compilers and caches; return whether the peer can do this at all."""
    little = work(line, concurrency, vocabulary, QUICK)
    return peer.run(little) is not None  # type: ignore[attr-defined]


def _say(**figures: object) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
