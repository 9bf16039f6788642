"""Readers of trace files: arrival times, in seconds from the first, and tokens. Does I/O: reads files."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import numpy as np

from penstock_simulator.arrivals import from_counts
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Lengths

TOKENS = ("input_length", "output_length")
"""Tokens of prompt and answer in the JSON lines of Mooncake."""
MAX_TOKENS = 2**53
"""Above it a float has no exact integers."""
MAX_DAYS = 366
"""Longest trace; one with milliseconds for seconds is longer in most cases, and takes days to simulate."""
DAMAGES = (ValueError, KeyError, TypeError, OverflowError, RecursionError, EOFError, csv.Error, gzip.BadGzipFile, zlib.error)  # fmt: skip
"""Errors of a file in another format, truncated or damaged."""
BURST_DAYS = (56, 59)
"""Days of the hourly trace that are used: three consecutive ones with traffic in nearly every hour."""
BURST_HOUR_SECONDS = 60.0
"""Compressed length of an hour of that trace, so that a law must follow a day in minutes."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Arrivals of one file, in seconds from the first, ascending."""

    name: str
    times: Times
    lengths: Lengths | None = None
    """Tokens of each arrival's prompt and answer; None if the file has none."""
    counted: bool = False
    """Whether the file has hourly counts, so that only the shape of the arrivals is known."""

    @property
    def duration(self) -> float:
        """Return the length in seconds."""
        return float(self.times[-1] - self.times[0])

    def unscaled(self) -> Times:
        """Return the arrivals as they are.

        Raises:
            UnreadableTrace: the file has hourly counts, which must be scaled.
        """
        if self.counted:
            raise UnreadableTrace(
                f"trace {self.name}: hourly counts have no arrival times of their own: expected arrival times, or a"
                " scale by --mean-replicas of the simulator"
            )
        return self.times


class UnreadableTrace(ValueError):
    """The file contains no readable arrival times."""


def read_trace(path: Path) -> Trace:
    """Return the arrivals of a file: Azure CSV, Mooncake JSON lines, hourly counts, or one number per line.

    Raises:
        UnreadableTrace: another format, fewer than two arrivals, or more than a year of them.
        OSError: the file cannot be read.
    """
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    try:
        times, lengths, counted = _times(path)
    except DAMAGES as problem:
        raise UnreadableTrace(f"trace {path}: {problem}") from problem
    if len(times) < 2 or not np.isfinite(times).all():
        raise UnreadableTrace(f"trace {path}: expected at least two finite arrival times")
    days = (times.max() - times.min()) / 86_400.0
    if days > MAX_DAYS:
        raise UnreadableTrace(
            f"trace {path}: its arrivals span {days:.4g} days: expected at most {MAX_DAYS}, with times in seconds"
        )
    order = np.argsort(times, kind="stable")
    lengths = None if lengths is None else lengths[order]
    return Trace(name, times[order] - times[order[0]], lengths, counted)


def _times(path: Path) -> tuple[Times, Lengths | None, bool]:
    """Return arrival times, tokens, and whether they come from hourly counts."""
    with _open(path) as lines:
        first = lines.readline()
        if first.startswith("time_bin"):
            return _counts(first, lines), None, True
        rest = [line for line in (first, *lines) if line.strip() and not line.startswith("#")]
    if first.startswith("TIMESTAMP"):
        rows = [line.split(",") for line in rest[1:]]
        return _stamps(row[0] for row in rows), _lengths([row[1:3] for row in rows]), False
    if first.lstrip().startswith("{"):
        requests = sorted(map(json.loads, rest), key=itemgetter("timestamp"))
        stamps = np.array([request["timestamp"] / 1000.0 for request in requests])
        tokens = [[request.get(name) for name in TOKENS] for request in requests]
        return _spread(stamps), _lengths(tokens), False
    return np.array([float(line.split(",", 1)[0]) for line in rest]), None, False


def _lengths(tokens: Sequence[Sequence[str | float | None]]) -> Lengths | None:
    """Return (prompt, answer) of each request, at least one token each; None if any is missing."""
    if not all(len(pair) == 2 and None not in pair for pair in tokens):
        return None
    lengths = np.array(tokens, dtype=np.float64)
    if not (np.abs(lengths) < MAX_TOKENS).all():
        raise ValueError(f"expected less than {MAX_TOKENS} tokens of prompts and answers")
    return np.maximum(lengths, 1).astype(np.int64)


def _open(path: Path) -> io.TextIOBase:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8")
    return path.open(encoding="utf-8")


def _stamps(stamps: Iterable[str]) -> Times:
    """Return seconds of `2023-11-16 18:17:03.9799600` or `2024-05-10 00:00:01+00:00`; without an offset they are UTC."""
    parsed = map(datetime.fromisoformat, stamps)
    return np.array(
        [(stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp() for stamp in parsed]
    )


def _spread(times: Times) -> Times:
    """Return stamps that were rounded to a step spread evenly over it: Mooncake's are multiples of 3 s."""
    distinct, sizes = np.unique(times, return_counts=True)
    if len(distinct) < 2 or len(times) < 2 * len(distinct):
        return times
    step = float(np.diff(distinct).min())
    parts = [at + step * np.arange(size) / size for at, size in zip(distinct, sizes, strict=True)]
    return np.concatenate(parts)


def _counts(header: str, lines: Iterable[str]) -> Times:
    """Return arrivals from hourly counts of requests (sessions x turns), for some days, compressed in time."""
    rows = list(csv.DictReader((header, *lines)))
    begin, end = (day * 24 for day in BURST_DAYS)
    counts = np.zeros(end - begin)
    for row in rows:
        hour = int(float(row["time_bin"])) // 3600
        if begin <= hour < end:
            counts[hour - begin] += float(row["session_count"]) * float(row["avg_turns"])
    if not counts.sum() > 0:
        raise ValueError(f"no requests in the hours {begin} to {end - 1} of time_bin")
    starts = np.arange(len(counts)) * BURST_HOUR_SECONDS
    return from_counts(starts.astype(np.float64), counts, BURST_HOUR_SECONDS)
