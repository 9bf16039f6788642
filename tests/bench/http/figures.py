"""Measurements of the HTTP bench, with their medians and ratios."""

from collections import defaultdict
from statistics import median
from typing import Any, Final

from tests.bench.http.overload import GOODPUT_TARGET, GROWN_TARGET, mebibytes_grown

BEST_MOSEC: Final = "Mosec"
OPEN_SHARE: Final = 0.8


class HttpFigures:
    """Figures of one run of the bench."""

    def __init__(self, calibration: dict[str, Any]) -> None:
        self.calibration = calibration
        self.absent: dict[str, str] = {}
        """Reasons for absent contenders, by name."""
        self.opened: dict[str, dict[float, dict[str, Any]]] = {}
        """Open-loop measurements by contender and share of our peak."""
        self.overload: dict[str, Any] = {}
        self.forming: dict[int, float] = {}
        """Microseconds to form a batch, by the number of waiting requests."""
        self.process_memory: float | None = None
        """Memory of both our processes in bytes, when the engine has its own."""
        self.new_replicas_seconds: float | None = None
        """Seconds until two new replicas each have their share of keep-alive traffic."""
        self._closed: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def note(self, name: str, connections: int, sample: dict[str, Any]) -> None:
        """Add one closed-loop measurement."""
        self._closed[name][connections].append(sample)

    def names(self) -> list[str]:
        """Return the names of the measured contenders, in order."""
        return list(self._closed)

    def connections(self) -> list[int]:
        """Return the measured numbers of connections."""
        return sorted(
            {number for by_connections in self._closed.values() for number in by_connections}
        )

    def rate(self, name: str, connections: int) -> float:
        """Return the median of correct answers a second; 0 without a measurement."""
        return self._median(name, connections, lambda run: run["right"] / run["seconds"])

    def peak(self, name: str) -> tuple[float, int]:
        """Return the best rate over all numbers of connections, and that number; (0, 64) without a measurement."""
        measured = self._closed.get(name, {})
        return max(((self.rate(name, number), number) for number in measured), default=(0.0, 64))

    def cpu_microseconds(self, name: str, connections: int) -> float:
        """Return the median processor time per correct answer, over all processes of the server."""
        return self._median(
            name, connections, lambda run: 1e6 * run["cpu_seconds"] / max(1, run["right"])
        )

    def p99_milliseconds(self, name: str, connections: int) -> float:
        """Return the median of the rounds' p99."""
        return self._median(name, connections, lambda run: run["p99"] / 1000)

    def _rate(self, name: str, connections: int) -> float | None:
        """Return `rate`, or None without a measurement, which differs from a rate of 0."""
        measured = connections in self._closed.get(name, {})
        return self.rate(name, connections) if measured else None

    def _best(self, start: str, connections: int) -> float | None:
        """Return the best rate of the contenders whose name starts with `start`, or None without a measurement."""
        rates = (
            self._rate(contender, connections)
            for contender in self.names()
            if contender.startswith(start)
        )
        return max((rate for rate in rates if rate is not None), default=None)

    def ratios(self) -> list[tuple[str, float, float | None]]:
        """Return (line, measured, target) for every measured line, including those of 0 and those without a target."""
        lines: list[tuple[str, float | None, float | None]] = []
        many = [number for number in self.connections() if number >= 64]
        for c in many:
            ours, sketch, on_uvloop = (
                self._cpu(n, c)
                for n in ("penstock", "raw asyncio sketch", "raw asyncio sketch, uvloop")
            )
            lines += [
                (f"CPU a request / raw sketch's, {c} connections (at most)", _ratio(ours, sketch), 1.35),
                (f"CPU a request / raw sketch's on uvloop, {c} connections", _ratio(ours, on_uvloop), None),
                (f"requests/s / Mosec's best, {c} connections", self._over("penstock", BEST_MOSEC, c), 1.2),
                (f"requests/s / LitServe's, {c} connections", self._over("penstock", "LitServe", c), 15.0),
                (f"binary / Triton's binary, {c} connections", self._over("penstock, binary", "Triton", c), 2.0),
                (f"binary / our JSON, {c} connections", _ratio(self._rate("penstock, binary", c), self._rate("penstock", c)), 1.0),
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
            ("3x overload: goodput / peak", self.overload.get("goodput_ratio"), GOODPUT_TARGET),
            ("3x overload: goodput / peak, by CPU a right answer", self.overload.get("goodput_ratio_by_cpu"), GOODPUT_TARGET),
            ("3x overload: accepted requests' p99 / deadline (at most)", self._lateness(), 1.0),
            ("MiB grown under overload (at most)", mebibytes_grown(self.overload), GROWN_TARGET),
            ("memory / bare torch with the network (at most)", self._memory_ratio(), 1.15),
            ("MiB beyond that with an HTTP process (at most)", self._process_mebibytes(), 120.0),
            ("forming a batch, 10,000 waiting / 100 (at most)", self._forming_ratio(), 1.5),
            ("seconds until new replicas have 15 % each (at most)", self.new_replicas_seconds, 60.0),
        ]  # fmt: skip
        return [
            (line, measured, target) for line, measured, target in lines if measured is not None
        ]

    def open_peers(self) -> dict[str, float]:
        """Return the p99 in milliseconds of each peer that serves OPEN_SHARE of our peak."""
        return {
            name: sample[OPEN_SHARE]["p99"] / 1000
            for name, sample in self.opened.items()
            if OPEN_SHARE in sample and not name.startswith("penstock") and "sketch" not in name
        }

    def _open_ratio(self) -> float | None:
        ours = self.opened.get("penstock", {}).get(OPEN_SHARE)
        peers = self.open_peers().values()
        return _ratio(ours["p99"] / 1000, min(peers)) if ours and peers else None

    def _lateness(self) -> float | None:
        sample = self.overload
        if not sample:
            return None
        return float(sample["p99_milliseconds"]) / float(sample["deadline_milliseconds"])

    def _process_mebibytes(self) -> float | None:
        if self.process_memory is None:
            return None
        allowed = 1.15 * self.calibration["bare_torch_bytes"]
        return max(0.0, float(self.process_memory - allowed) / 2**20)

    def _memory_ratio(self) -> float | None:
        most = max(self.connections(), default=0)
        if self._rate("penstock", most) is None:
            return None
        ours = self._median("penstock", most, lambda run: run["memory"])
        return _ratio(ours, self.calibration["bare_torch_bytes"])

    def _forming_ratio(self) -> float | None:
        return _ratio(self.forming.get(10_000), self.forming.get(100))

    def _over(self, name: str, others: str, connections: int) -> float | None:
        return _ratio(self._rate(name, connections), self._best(others, connections))

    def _cpu(self, name: str, connections: int) -> float | None:
        measured = self._rate(name, connections) is not None
        return self.cpu_microseconds(name, connections) if measured else None

    def _median(self, name: str, connections: int, of: Any) -> float:
        samples = self._closed.get(name, {}).get(connections, [])
        return float(median(of(run) for run in samples)) if samples else 0.0

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


def _ratio(value: float | None, other: float | None) -> float | None:
    """Return the quotient, or None if a value is absent or the divisor is 0."""
    return value / other if value is not None and other else None
