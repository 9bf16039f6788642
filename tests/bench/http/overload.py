"""Three times more than our peak, in open loop with a deadline: what is still served in time, and at what memory."""

from dataclasses import replace
from typing import Any, Final

from tests.bench.http.plan import Contender
from tests.bench.http.running import load, serving

FACTOR: Final = 3.0
DEADLINE_MILLISECONDS: Final = 1000.0
GOODPUT_TARGET: Final = 0.75
CONNECTIONS: Final = 1024


def overload(ours: Contender, peak: float, seconds: float) -> dict[str, Any]:
    """Return goodput as a share of `peak` (answers a second in closed loop), p99 and growth of memory."""
    with serving(replace(ours, name="penstock, overload")) as running:
        before = load(running, 64, 1.0)
        seen = load(running, CONNECTIONS, seconds, FACTOR * peak)
        after = load(running, 64, 1.0)
    return {
        **seen,
        "goodput_ratio": seen["right"] / seen["seconds"] / peak,
        "goodput_target": GOODPUT_TARGET,
        "p99_milliseconds": seen["p99"] / 1000,
        "deadline_milliseconds": DEADLINE_MILLISECONDS,
        "refused_per_second": seen["refused"] / seen["seconds"],
        "memory_grown": max(seen["memory"], after["memory"]) - before["memory"],
    }
