"""Three times more than our peak, in open loop with a deadline: what is still served in time, and at what memory."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from penstock_api.limits import Discipline, LimitsUpdate
from penstock_api.names import LIMITS_FILE
from tests.bench.http.plan import MAX_BATCH, Contender
from tests.bench.http.running import load, serving

FACTOR: Final = 3.0
DEADLINE_MILLISECONDS: Final = 1000
PATIENCE_SECONDS: Final = 0.1
"""A client's, for a free connection: what it cannot send by then it does not."""
GOODPUT_TARGET: Final = 0.75
CONNECTIONS: Final = 960
QUEUE_DEPTH: Final = 256
"""A quarter of a second of our peak: the queue fills, so refusals are of its depth. With a pool's default the deadline
is what refuses: FIRST_LIMITS.max_queue_depth."""
GROWN_TARGET: Final = 16.0
"""MiB: as flat as memory is told to be."""


class Peak(NamedTuple):
    """What a server does at its best in closed loop: that is what overload is a multiple, and goodput a share, of."""

    rate: float
    """Right answers a second."""
    connections: int


def overload(
    ours: Contender,
    peak: Peak,
    seconds: float,
    write: Callable[[Contender], Path] | None = None,
    queue_depth: int = QUEUE_DEPTH,
) -> dict[str, Any]:
    """Return goodput as a share of `peak`, p99 and growth of memory.

    `write` makes the file of requests, for another model than the network; `queue_depth` is `maxQueueDepth`.
    """
    with TemporaryDirectory() as folder:
        (Path(folder) / LIMITS_FILE).write_text(_limits(queue_depth))
        contender = replace(
            ours,
            name="penstock, overload",
            headers=f"X-Request-Timeout-Ms: {DEADLINE_MILLISECONDS}\r\n",
            environment={**ours.environment, "PENSTOCK_SETTINGS_FOLDER": folder},
        )
        with serving(contender, write(contender) if write else None) as running:
            before = load(running, peak.connections, 2.0)
            seen = load(running, CONNECTIONS, seconds, FACTOR * peak.rate, PATIENCE_SECONDS)
            after = load(running, 64, 1.0)
    return {
        **seen,
        "goodput_ratio": seen["right"] / seen["seconds"] / peak.rate,
        "goodput_target": GOODPUT_TARGET,
        "goodput_ratio_by_cpu": _cpu(before) / _cpu(seen),
        "p99_milliseconds": seen["p99"] / 1000,
        "deadline_milliseconds": DEADLINE_MILLISECONDS,
        "queue_depth": queue_depth,
        "refused_per_second": seen["refused"] / seen["seconds"],
        "unsent_per_second": seen["unsent"] / seen["seconds"],
        "memory_grown": max(seen["memory"], after["memory"]) - before["memory"],
    }


def _cpu(seen: dict[str, Any]) -> float:
    """Return processor time a right answer: what holds on a machine that others use too."""
    return float(seen["cpu_seconds"]) / max(1, int(seen["right"]))


def mebibytes_grown(seen: dict[str, Any]) -> float | None:
    """Return by how much the memory grew; None where there was no overload."""
    return seen["memory_grown"] / 2**20 if seen else None


def _limits(queue_depth: int) -> str:
    limits = LimitsUpdate(
        generation=1,
        max_batch_size=MAX_BATCH,
        max_queue_depth=queue_depth,
        max_queue_delay_milliseconds=5,
        discipline=Discipline.PRIORITY,
    )
    return json.dumps(limits.model_dump(mode="json", by_alias=True))
