"""Synthetic stand-ins for the public traces: the same on every machine, and no measure of anything but the code's running.

`python -m tests.bench.traces.synthetic FOLDER` writes one file of arrival times for each trace of the bench, under the
trace's name, and for `make simulate` the hour `waves.txt` and the day `sparse.txt`.
"""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.bench.control.plan import TRACES

SECONDS = 3600
REQUESTS_PER_SECOND = 5.0
Rates = NDArray[np.float64]
SIMULATED, SPARSE = "waves.txt", "sparse.txt"
DAY_SECONDS = 86400.0
WORK_HOURS = (8, 18)
SESSIONS_PER_HOUR, SESSIONS_PER_NIGHT_HOUR = 4.0, 0.5
SESSION_REQUESTS, THINK_SECONDS = 20, 30.0
"""Means of geometric and exponential distributions."""


def waves(at: Rates) -> Rates:
    """Return a rate that rises and falls every twenty minutes."""
    return 1.0 + 0.6 * np.sin(2 * np.pi * at / 1200)


def surge(at: Rates) -> Rates:
    """Return a rate that grows thirteenfold within ten seconds, after ten minutes, for two."""
    rise = np.clip((at - 600) / 10, 0, 1)
    return np.asarray(0.5 + 6.0 * rise * (at < 730), dtype=np.float64)


def bursts(at: Rates) -> Rates:
    """Return a rate with a burst of a minute every seven."""
    return 0.6 + 2.8 * ((at % 420) < 60).astype(np.float64)


def steady(at: Rates) -> Rates:
    """Return a nearly constant rate."""
    return 1.0 + 0.1 * np.sin(2 * np.pi * at / 300)


SHAPES: dict[str, Callable[[Rates], Rates]] = {
    "azure_conv": waves,
    "azure_code": surge,
    "burstgpt": bursts,
    "mooncake": steady,
}


def arrivals(trace: str) -> Rates:
    """Return the arrival times of a stand-in in seconds, ascending: Poisson, with the trace's shape."""
    random = np.random.default_rng([7, list(SHAPES).index(trace)])
    rates = SHAPES[trace](np.arange(SECONDS, dtype=np.float64))
    counts = random.poisson(REQUESTS_PER_SECOND * rates / rates.mean())
    starts = np.repeat(np.arange(SECONDS, dtype=np.float64), counts)
    return np.asarray(np.sort(starts + random.random(len(starts))), dtype=np.float64)


def sparse_day() -> Rates:
    """Return the arrivals of a day of a pool that few people use: sessions of requests, and one request at each midnight."""
    random = np.random.default_rng([7, 100])
    times: list[float] = []
    for hour in range(24):
        rate = SESSIONS_PER_HOUR if hour in range(*WORK_HOURS) else SESSIONS_PER_NIGHT_HOUR
        for _ in range(random.poisson(rate)):
            pauses = random.exponential(THINK_SECONDS, random.geometric(1 / SESSION_REQUESTS))
            times += (3600 * (hour + random.random()) + np.cumsum(pauses)).tolist()
    arrivals = np.sort(np.array([0.0, *times, DAY_SECONDS]))
    return np.asarray(arrivals[arrivals <= DAY_SECONDS], dtype=np.float64)


def write(folder: Path) -> Path:
    """Write all stand-ins; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for trace, file in TRACES.items():
        (folder / file).write_bytes(gzip.compress(text(trace).encode(), mtime=0))
    (folder / SIMULATED).write_text(text("azure_conv"), encoding="utf-8")
    (folder / SPARSE).write_text(_lines(sparse_day()), encoding="utf-8")
    return folder


def text(trace: str) -> str:
    """Return the content of a stand-in's file, one arrival a line."""
    return _lines(arrivals(trace))


def _lines(times: Rates) -> str:
    return "".join(f"{time:.3f}\n" for time in times)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
