"""What was measured, and the medians and ratios that are told of it."""

from collections import defaultdict
from statistics import median
from typing import Any, Final

from tests.bench.http.overload import GOODPUT_TARGET

BEST_MOSEC: Final = "Mosec"
OPEN_SHARE: Final = 0.8


class Figures:
    """One run of the bench."""

    def __init__(self, calibration: dict[str, Any]) -> None:
        self.calibration = calibration
        self.absent: dict[str, str] = {}
        """Why a contender takes no part, by its name."""
        self.opened: dict[str, dict[float, dict[str, Any]]] = {}
        """Open loop: by contender and share of our peak."""
        self.overload: dict[str, Any] = {}
        self.forming: dict[int, float] = {}
        """Microseconds of forming a batch, by how many wait."""
        self.process_memory = 0.0
        """Bytes of both our processes, where the engine has one of its own."""
        self.new_replicas_seconds = 0.0
        """Until two new replicas each have their share of keep-alive traffic."""
        self._closed: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def note(self, name: str, connections: int, seen: dict[str, Any]) -> None:
        """Keep one measurement in closed loop."""
        self._closed[name][connections].append(seen)

    def names(self) -> list[str]:
        """Return who was measured, in order."""
        return list(self._closed)

    def connections(self) -> list[int]:
        """Return the numbers of connections that were measured."""
        return sorted({one for seen in self._closed.values() for one in seen})

    def rate(self, name: str, connections: int) -> float:
        """Return the median of right answers a second; 0 where there is none."""
        return self._median(name, connections, lambda one: one["right"] / one["seconds"])

    def cpu_microseconds(self, name: str, connections: int) -> float:
        """Return the median of processor time a right answer, of all the server's processes."""
        return self._median(
            name, connections, lambda one: 1e6 * one["cpu_seconds"] / max(1, one["right"])
        )

    def p99_milliseconds(self, name: str, connections: int) -> float:
        """Return the median of the rounds' p99."""
        return self._median(name, connections, lambda one: one["p99"] / 1000)

    def best(self, start: str, connections: int) -> float:
        """Return the best rate among contenders whose name begins with `start`."""
        return max(
            (self.rate(one, connections) for one in self.names() if one.startswith(start)),
            default=0.0,
        )

    def ratios(self) -> list[tuple[str, float, float]]:
        """Return (line, measured, target) for every line that this run can tell."""
        lines: list[tuple[str, float, float]] = []
        many = [one for one in self.connections() if one >= 64]
        for c in many:
            ours, sketch = (self.cpu_microseconds(n, c) for n in ("penstock", "raw asyncio sketch"))
            lines += [
                (f"CPU a request / raw sketch's, {c} connections (at most)", _ratio(ours, sketch), 1.35),
                (f"requests/s / Mosec's best, {c} connections", self._over("penstock", BEST_MOSEC, c), 1.2),
                (f"requests/s / LitServe's, {c} connections", self._over("penstock", "LitServe", c), 15.0),
                (f"binary / Triton's binary, {c} connections", self._over("penstock, binary", "Triton", c), 2.0),
                (f"binary / our JSON, {c} connections", _ratio(self.rate("penstock, binary", c), self.rate("penstock", c)), 1.0),
            ]  # fmt: skip
        lines += [
            (
                "requests/s / naive aiohttp's, 1 connection",
                self._over("penstock", "naive aiohttp", 1),
                1.0,
            ),
            ("requests/s / Triton's, 1 connection", self._over("penstock", "Triton", 1), 1.3),
        ]
        lines += [
            ("p99 / best peer's, open loop at 80 % of our capacity (at most)", self._open_ratio(), 1.0),
            ("3x overload: goodput / peak", self.overload.get("goodput_ratio", 0.0), GOODPUT_TARGET),
            ("3x overload: goodput / peak, by CPU a right answer", self.overload.get("goodput_ratio_by_cpu", 0.0), GOODPUT_TARGET),
            ("3x overload: accepted requests' p99 / deadline (at most)", self._lateness(), 1.0),
            ("memory / bare torch with the network (at most)", self._memory_ratio(), 1.15),
            ("MiB beyond that with an HTTP process (at most)", self._process_mebibytes(), 120.0),
            ("forming a batch, 10,000 waiting / 100 (at most)", self._forming_ratio(), 1.5),
            ("seconds until new replicas have 15 % each (at most)", self.new_replicas_seconds, 60.0),
        ]  # fmt: skip
        return [line for line in lines if line[1] > 0]

    def open_peers(self) -> dict[str, float]:
        """Return the p99 in milliseconds of each peer that serves OPEN_SHARE of our peak."""
        return {
            name: seen[OPEN_SHARE]["p99"] / 1000
            for name, seen in self.opened.items()
            if OPEN_SHARE in seen and not name.startswith("penstock") and "sketch" not in name
        }

    def _open_ratio(self) -> float:
        ours = self.opened.get("penstock", {}).get(OPEN_SHARE)
        peers = self.open_peers().values()
        return _ratio(ours["p99"] / 1000, min(peers)) if ours and peers else 0.0

    def _lateness(self) -> float:
        seen = self.overload
        return seen["p99_milliseconds"] / seen["deadline_milliseconds"] if seen else 0.0

    def _process_mebibytes(self) -> float:
        allowed = 1.15 * self.calibration["bare_torch_bytes"]
        return max(0.1, (self.process_memory - allowed) / 2**20) if self.process_memory else 0.0

    def _memory_ratio(self) -> float:
        ours = self._median("penstock", max(self.connections()), lambda one: one["memory"])
        return _ratio(ours, self.calibration["bare_torch_bytes"])

    def _forming_ratio(self) -> float:
        return _ratio(self.forming.get(10_000, 0.0), self.forming.get(100, 0.0))

    def _over(self, name: str, others: str, connections: int) -> float:
        return _ratio(self.rate(name, connections), self.best(others, connections))

    def _median(self, name: str, connections: int, of: Any) -> float:
        seen = self._closed.get(name, {}).get(connections, [])
        return float(median(of(one) for one in seen)) if seen else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return everything, for `build/bench/http.json`."""
        return {
            "calibration": self.calibration,
            "absent": self.absent,
            "closed": self._closed,
            "open": self.opened,
            "overload": self.overload,
            "process_memory": self.process_memory,
            "new_replicas_seconds": self.new_replicas_seconds,
            "forming_microseconds": self.forming,
            "ratios": [
                {"line": line, "measured": round(measured, 3), "target": target}
                for line, measured, target in self.ratios()
            ],
        }


def _ratio(one: float, other: float) -> float:
    return one / other if other else 0.0
