"""Overload: goodput and memory at three times our peak, in an open loop with a deadline."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from penstock_api.names import LIMITS_FILE
from penstock_api.pod_contract import Discipline, LimitsUpdate
from tests.bench.http.plan import MAX_BATCH, Contender
from tests.bench.http.running import load, serving

FACTOR: Final = 3.0
DEADLINE_MILLISECONDS: Final = 1000
PATIENCE_SECONDS: Final = 0.1
"""Time that a client waits for a free connection before it drops a request."""
GOODPUT_TARGET: Final = 0.75
CONNECTIONS: Final = 960
QUEUE_DEPTH: Final = 256
"""A quarter of a second of our peak, so that requests are rejected because the queue is full. With a pool's default,
FIRST_LIMITS.max_queue_depth, they are rejected because of the deadline."""
GROWN_TARGET: Final = 16.0
"""Largest growth of memory in MiB."""


class Peak(NamedTuple):
    """Peak of a server in a closed loop; overload is a multiple of it, and goodput a share."""

    rate: float
    """Correct answers a second."""
    connections: int


def overload(
    ours: Contender,
    peak: Peak,
    seconds: float,
    write: Callable[[Contender], Path] | None = None,
    queue_depth: int = QUEUE_DEPTH,
) -> dict[str, Any]:
    """Return goodput as a share of `peak`, p99 and growth of memory.

    `write` writes the requests file for a model other than the network; `queue_depth` is `maxQueueDepth`.
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
            sample = load(running, CONNECTIONS, seconds, FACTOR * peak.rate, PATIENCE_SECONDS)
            after = load(running, 64, 1.0)
    return {
        **sample,
        "goodput_ratio": sample["right"] / sample["seconds"] / peak.rate,
        "goodput_target": GOODPUT_TARGET,
        "goodput_ratio_by_cpu": _cpu(before) / _cpu(sample),
        "p99_milliseconds": sample["p99"] / 1000,
        "deadline_milliseconds": DEADLINE_MILLISECONDS,
        "queue_depth": queue_depth,
        "refused_per_second": sample["refused"] / sample["seconds"],
        "unsent_per_second": sample["unsent"] / sample["seconds"],
        "memory_grown": max(sample["memory"], after["memory"]) - before["memory"],
    }


def _cpu(sample: dict[str, Any]) -> float:
    """Return the processor time per correct answer, which is robust on a shared machine."""
    return float(sample["cpu_seconds"]) / max(1, int(sample["right"]))


def mebibytes_grown(sample: dict[str, Any]) -> float | None:
    """Return the growth of memory in MiB, or None without an overload run."""
    return sample["memory_grown"] / 2**20 if sample else None


def _limits(queue_depth: int) -> str:
    limits = LimitsUpdate(
        generation=1,
        max_batch_size=MAX_BATCH,
        max_queue_depth=queue_depth,
        max_queue_delay_milliseconds=5,
        discipline=Discipline.PRIORITY,
    )
    return json.dumps(limits.model_dump(mode="json", by_alias=True))
