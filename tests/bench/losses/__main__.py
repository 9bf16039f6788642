"""`make bench-losses`: many requests with randomly timed events, of which none may be lost or answered twice or wrong."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from statistics import quantiles
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.losses.events import KINDS, OF_GENERATING_PODS, name_of
from tests.bench.losses.run import Outcome, Scale, run
from tests.bench.losses.world import Front

console = Console(width=120)
TIMELINE: Final = Path("build/bench/losses.tsv")


def main() -> None:
    """Run and print; fail if a request was lost, or answered twice or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument(
        "--front",
        type=Front,
        choices=list(Front),
        default=Front.GATEWAY,
        help="Service: clients reach the pods as by kube-proxy; HAProxy, vllm-router: by one; only pods change",
    )
    parser.add_argument(
        "--streams", type=int, default=3, help="clients of generated text; only by the gateway"
    )
    parser.add_argument("--each", action="store_true", help="every kind of event equally often")
    kinds = [name_of(kind) for kind in (*KINDS[Front.GATEWAY], *OF_GENERATING_PODS)]
    parser.add_argument("--only", choices=kinds, action="append", help="a kind of event")
    options = parser.parse_args()
    scale = Scale(
        options.requests,
        options.events,
        options.seed,
        options.clients,
        front=options.front,
        each=options.each,
        only=tuple(options.only or ()),
        streams=options.streams if options.front is Front.GATEWAY else 0,
    )
    console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {scale}")
    outcome = asyncio.run(run(scale, _print))
    console.print(_table(outcome))
    for note in outcome.failures:
        console.print(note, markup=False)
    TIMELINE.parent.mkdir(parents=True, exist_ok=True)
    TIMELINE.write_text("".join(f"{a:.1f}\t{b:.1f}\t{kind}\n" for a, b, kind in outcome.timeline))
    console.print(f"begin, end and kind of the events: {TIMELINE}")
    sys.exit(bool(outcome.failures))


def _print(so_far: Outcome) -> None:
    tally, streams = so_far.tally, so_far.streams
    console.print(
        f"{so_far.seconds:.0f} s: {tally.right} right, {tally.lost.total} lost, {streams.equal} streams equal,"
        f" {len(so_far.failures)} notes, {so_far.events.total()} events"
    )
    for note in so_far.failures[-5:]:
        console.print(note, markup=False)


def _table(outcome: Outcome) -> Table:
    tally, streams = outcome.tally, outcome.streams
    sent = tally.right + tally.lost.total + tally.wrong.total
    cuts = quantiles(tally.latencies, n=1000)
    table = Table("figure", "value", title="Losses")
    for name, value in {
        "answered right": f"{tally.right} of {sent}",
        "lost": tally.lost.total,
        "answered twice": tally.twice.total,
        "answered wrong": tally.wrong.total,
        "sent again by clients of a killed Envoy": tally.sent_again,
        "requests/s": f"{sent / outcome.seconds:.0f}",
        "p50, p99, p99.9": ", ".join(f"{1000 * cuts[at]:.0f} ms" for at in (499, 989, 998)),
        "streams equal to an undisturbed run": streams.equal,
        "streams lost": streams.lost.total,
        "streams different": streams.different.total,
        "streams sent again by clients of a killed Envoy": streams.sent_again,
        "generations taken over by another pod": outcome.taken_over,
        "events": outcome.events.total(),
        **outcome.events,
    }.items():
        table.add_row(name, str(value))
    return table


if __name__ == "__main__":
    main()
