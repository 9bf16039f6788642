"""What each way to the pods costs: latency, rate, and the router's CPU a request and memory.

Every way is measured in each of several short rounds, in another order each time, and the table has medians with the
extremes: a closed loop takes all of a machine, so a router's share depends on what else runs, which rounds share.
"""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from rich.table import Table

from tests.bench.gateway.clients import Client, Sent, body_of, closed_loop, open_loop

LOADS: Final[Sequence[float | int]] = (100.0, 600.0, 16)
"""Requests a second, or (an integer) connections in a closed loop."""
SIZES: Final = (1024, 65536)
"""Bytes of a body."""
ROUNDS: Final = 7


@dataclass(frozen=True, slots=True)
class Way:
    """A client, and the process of the router that it reaches; None: it reaches a pod."""

    client: Client
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one round: requests/s, seconds, seconds of CPU a request and bytes."""

    rate: float
    lost: int
    p50: float
    p99: float
    cpu: float
    memory: int


async def cost(ways: Mapping[str, Way], seconds: float) -> Table:
    """Return a table of all loads and sizes; `seconds` is the time of a figure over all its rounds."""
    table = Table(
        "body", "load", "path", "requests/s", "lost", "p50, ms", "p99, ms", "CPU a request, us", "memory, MiB",
        title=f"Cost, two pods that answer at once; medians of {ROUNDS} interleaved rounds (least to most)",
    )  # fmt: skip
    for size in SIZES:
        for load in LOADS:
            rounds = await _rounds(ways, load, seconds / ROUNDS, body_of(size))
            name = f"{load} connections" if isinstance(load, int) else f"{load:.0f}/s"
            for path, figures in rounds.items():
                table.add_row(f"{size // 1024} KiB", name, path, *_cells(figures))
    return table


async def _rounds(
    ways: Mapping[str, Way], load: float | int, seconds: float, body: bytes
) -> dict[str, list[Figures]]:
    """Return the figures of each way's rounds, after one without figures, in which connections open."""
    order, orders = list(ways), random.Random(3)  # noqa: S311
    rounds: dict[str, list[Figures]] = {path: [] for path in ways}
    for path in order:
        await _send(ways[path].client, load, min(seconds, 0.5), body)
    for _ in range(ROUNDS):
        orders.shuffle(order)
        for path in order:
            rounds[path].append(await _round(ways[path], load, seconds, body))
    return rounds


async def _round(way: Way, load: float | int, seconds: float, body: bytes) -> Figures:
    before = 0.0 if way.pid is None else cpu_seconds(way.pid)
    sent = await _send(way.client, load, seconds, body)
    answered = len(sent.latencies)
    cuts = quantiles(sent.latencies, n=100)
    used = 0.0 if way.pid is None else (cpu_seconds(way.pid) - before) / answered
    memory = 0 if way.pid is None else memory_bytes(way.pid)
    return Figures(answered / seconds, sent.lost, cuts[49], cuts[98], used, memory)


async def _send(client: Client, load: float | int, seconds: float, body: bytes) -> Sent:
    if isinstance(load, int):
        return await closed_loop(client, load, seconds, body)
    return await open_loop(client, load, seconds, seed=2, body=body)


def _cells(rounds: Sequence[Figures]) -> list[str]:
    """Return the cells of a row, from the rate on."""
    routed = any(figures.memory for figures in rounds)
    return [
        spread(figures.rate for figures in rounds),
        str(sum(figures.lost for figures in rounds)),
        spread((1000 * figures.p50 for figures in rounds), digits=2),
        spread((1000 * figures.p99 for figures in rounds), digits=2),
        spread(1e6 * figures.cpu for figures in rounds) if routed else "",
        f"{max(figures.memory for figures in rounds) / 2**20:.0f}" if routed else "",
    ]


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Return the median of some values, with the least and the most."""
    known = sorted(values)
    return f"{median(known):.{digits}f} ({known[0]:.{digits}f} to {known[-1]:.{digits}f})"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the threads of a process have used, to the nanosecond: rounds are short."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in tasks) / 1e9


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
