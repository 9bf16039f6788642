"""GPU duty and memory: from NVML where the model runs on CUDA and NVML is available, else the engine's busy share."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pynvml

log = logging.getLogger(__name__)

SAMPLE_SECONDS = 0.5
WINDOW_SECONDS = 5.0
"""Averaging window; equals the scrape interval."""
NVML_SECONDS = 2.0
"""Timeout of a driver call; a call that exceeds it gives no reading and is not awaited further."""


class DutySource(StrEnum):
    """The label value of `penstock_gpu_utilization_ratio`."""

    NVML = "NVML"
    ENGINE = "EngineBusyShare"


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The pod's GPUs at one moment: mean duty (0 to 1), and memory in bytes over all of them."""

    utilization: float
    memory_used: int
    memory_total: int


@dataclass(frozen=True, slots=True)
class Duty:
    """Mean duty over the window, and its source."""

    ratio: float
    source: DutySource


class BusyShare:
    """Share of the window in which an engine was busy, from its monotonic busy time."""

    def __init__(self, window_seconds: float = WINDOW_SECONDS) -> None:
        self._window_seconds = window_seconds
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, now: float, busy_seconds: float) -> None:
        """Add a sample and drop samples outside the window."""
        self._samples.append((now, busy_seconds))
        while len(self._samples) > 2 and self._samples[1][0] <= now - self._window_seconds:
            self._samples.popleft()

    def ratio(self) -> float:
        """Return 0 to 1; 0 before the second sample."""
        if len(self._samples) < 2:
            return 0.0
        (since, before), (now, busy) = self._samples[0], self._samples[-1]
        return min(max((busy - before) / max(now - since, 1e-9), 0.0), 1.0)


class DutyMeter:
    """Samples both sources twice per second; reading the result never blocks.

    `read_gpu` may block and runs in a thread until it returns None. Without it the duty is the engine's busy share.
    """

    def __init__(
        self,
        busy_seconds: Callable[[], float],
        now: Callable[[], float],
        read_gpu: Callable[[], GpuReading | None] | None = None,
    ) -> None:
        self._busy_seconds = busy_seconds
        self._now = now
        self._read_gpu = read_gpu
        self._share = BusyShare()
        self._readings: deque[tuple[float, GpuReading]] = deque()
        self._call: asyncio.Task[GpuReading | None] | None = None

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def sample(self) -> None:
        """Take one sample of each source; returns within `NVML_SECONDS`."""
        self._share.add(self._now(), self._busy_seconds())
        if self._read_gpu is not None:
            await self._sample_gpu(self._read_gpu)

    def duty(self) -> Duty:
        """Return the mean of the last seconds."""
        fresh = self._fresh()
        if fresh:
            return Duty(sum(reading.utilization for reading in fresh) / len(fresh), DutySource.NVML)
        return Duty(self._share.ratio(), DutySource.ENGINE)

    def memory(self) -> GpuReading | None:
        """Return the last reading; None without NVML."""
        fresh = self._fresh()
        return fresh[-1] if fresh else None

    def _fresh(self) -> list[GpuReading]:
        oldest = self._now() - WINDOW_SECONDS
        return [reading for time, reading in self._readings if time >= oldest]

    async def _sample_gpu(self, read: Callable[[], GpuReading | None]) -> None:
        if self._call is None:
            self._call = asyncio.create_task(asyncio.to_thread(read))
        done, _ = await asyncio.wait({self._call}, timeout=NVML_SECONDS)
        if not done:
            return  # the call hangs: await it at the next sample, never start a second
        reading, self._call = self._call.result(), None
        if reading is None:
            self._read_gpu = None
            return
        self._readings.append((self._now(), reading))
        while len(self._readings) > WINDOW_SECONDS / SAMPLE_SECONDS:
            self._readings.popleft()


class Nvml:
    """Readings of all GPUs of this container."""

    def __init__(self) -> None:
        self._handles: list[Any] = []

    def read(self) -> GpuReading | None:
        """Return a reading, or None without NVML support (no driver, no GPU, a MIG slice). May block."""
        try:
            if not self._handles:
                pynvml.nvmlInit()
                count = range(pynvml.nvmlDeviceGetCount())
                self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in count]
            return _reading(self._handles) if self._handles else None
        except pynvml.NVMLError as error:
            log.info("NVML is not available (%s): duty is the engine's busy share", error)
            return None


def _reading(handles: list[Any]) -> GpuReading:
    rates = [pynvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles]
    memory = [pynvml.nvmlDeviceGetMemoryInfo(handle) for handle in handles]
    return GpuReading(
        utilization=sum(rates) / len(rates) / 100,
        memory_used=sum(int(info.used) for info in memory),
        memory_total=sum(int(info.total) for info in memory),
    )
