"""`make traces` fetches the public traces that the bench of laws runs on, checks them, and converts them."""

import argparse
import gzip
import sys
import urllib.error
import urllib.request
from pathlib import Path

from rich.console import Console

from penstock_simulator.traces import read_trace
from tests.bench.traces.sources import SOURCES, ChangedTraceError, Source

TIMEOUT_SECONDS = 60


def main() -> int:
    """Fetch what is missing; the exit status is 1 if a trace could not be had."""
    parser = argparse.ArgumentParser(prog="tests.bench.traces", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the traces")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(soft_wrap=True, highlight=False)
    failed = 0
    for source in SOURCES:
        file = folder / source.file
        try:
            if not file.exists():
                store(source, download(source.url), file)
            trace = read_trace(file)
            console.print(f"{file}: {len(trace.times)} arrivals in {trace.duration / 3600:.1f} h")
        except (OSError, ChangedTraceError) as error:
            console.print(f"error: {source.trace}: {error}", style="red")
            failed += 1
    return 1 if failed else 0


def download(url: str) -> bytes:
    """Return a published file.

    Raises:
        OSError: its home cannot be reached.
    """
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - https, in sources.py
        content: bytes = answer.read()
    return content


def store(source: Source, content: bytes, file: Path) -> None:
    """Check a download, convert it, and write it compressed.

    Raises:
        ChangedTraceError: it is not what was published at the pinned commit.
    """
    source.check(content)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_bytes(gzip.compress(source.convert(content), mtime=0))
    unfinished.replace(file)


if __name__ == "__main__":
    sys.exit(main())
