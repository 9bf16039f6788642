"""`make bench-stalls`: the wait of `/healthz` during the largest bodies, and the gaps of a stream next to grammars."""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.stalls import grammars
from tests.stalls.walk import KINDS, SIZE, Kind, Wait, walking

MIB = 2**20
console = Console(width=150)


def main() -> None:
    """Measure every route of every kind of pod."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of a kind's or route's name")
    parser.add_argument("--size", type=int, default=SIZE, help="bytes of the largest body")
    options = parser.parse_args()
    for kind in KINDS:
        if not any(options.only in f"{kind.name} {route}" for route in kind.routes()):
            continue
        with tempfile.TemporaryDirectory() as folder:
            console.print(_table(kind, options.size, options.only, Path(folder)))
    if options.only in grammars.NAME:
        with tempfile.TemporaryDirectory() as folder:
            console.print(grammars.table(Path(folder)))


def _table(kind: Kind, size: int, only: str, folder: Path) -> Table:
    with walking(kind, folder) as walked:
        idle = 1000 * walked.idle_seconds()
        table = Table(title=f"{kind.name}; idle {idle:.0f} ms")
        for name in (
            "route",
            "body",
            "MiB",
            "status",
            "memory, MiB",
            "/healthz waits, ms",
            "not queued for CPU, ms",
        ):
            table.add_column(name)
        for route, cluster in kind.routes().items():
            if only not in f"{kind.name} {route}":
                continue
            for shape in kind.shapes(route, size):
                wait = walked.send(route, shape, cluster=cluster)
                table.add_row(*_row(wait))
                console.print(*_row(wait))
    return table


def _row(wait: Wait) -> tuple[str, ...]:
    return (
        wait.route,
        wait.shape,
        f"{wait.bytes / MIB:.1f}",
        str(wait.status),
        f"{wait.memory / MIB:.0f}",
        f"{1000 * wait.longest.seconds:.0f}",
        f"{1000 * wait.longest.unqueued:.0f}",
    )


if __name__ == "__main__":
    main()
