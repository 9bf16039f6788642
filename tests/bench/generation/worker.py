"""Worker process of one peer: `python -m tests.bench.generation.worker PEER MODEL DTYPE VOCABULARY SIZE`.

It runs in the peer's virtual environment, so only the peer's own module may import more than the standard library. It
prints one JSON object per line.
"""

import importlib
import json
import sys
from pathlib import Path
from time import process_time

from tests.bench.generation.workload import CONCURRENCY, LINES, QUICK, Work, WorkSize, work

LINE_SECONDS = 15.0
"""Time limit for the repeats of a line, which runs at least once."""


def main() -> int:
    """Print `about`, then a figure for each line and concurrency."""
    name, model, dtype, vocabulary, size_text = sys.argv[1:6]
    size = WorkSize(**json.loads(size_text))
    module = importlib.import_module(f"tests.bench.generation.peers.{name}")
    peer = module.Peer(Path(model), dtype)
    _print(about=peer.about)
    for concurrency in CONCURRENCY:
        for line in LINES:
            line_work = work(line, concurrency, int(vocabulary), size)
            if not _warm(peer, line, concurrency, int(vocabulary)):
                continue
            spent, times = process_time(), _times(peer, line_work, size.repeats)
            spent = process_time() - spent
            idle = peer.idle_share
            _print(
                line=line,
                concurrency=concurrency,
                tokens=line_work.counted,
                seconds=min(times),
                all_seconds=times,
                cpu_seconds=spent / len(times),
                idle_share=idle,
            )
    return 0


def _times(peer: object, requested: Work, repeats: int) -> list[float]:
    """Return the seconds of each repeat; no repeat starts after LINE_SECONDS."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < LINE_SECONDS:
        times.append(peer.run(requested))  # type: ignore[attr-defined]
    return times


def _warm(peer: object, line: str, concurrency: int, vocabulary: int) -> bool:
    """Run a small work to warm compilers and caches; return whether the peer supports it."""
    little = work(line, concurrency, vocabulary, QUICK)
    return peer.run(little) is not None  # type: ignore[attr-defined]


def _print(**figures: object) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
