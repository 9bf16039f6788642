"""GPU duty from NVML, or from the engine's busy share without NVML."""

import asyncio
import threading

import pynvml
import pytest

from penstock_runtime.telemetry.gpu import BusyShare, Duty, DutyMeter, DutySource, GpuReading, Nvml


def test_the_busy_share_covers_the_window() -> None:
    share = BusyShare(window_seconds=5.0)
    assert share.ratio() == 0.0
    for second in range(11):
        share.add(100.0 + second, busy_seconds=min(second, 8))
    assert share.ratio() == pytest.approx(3 / 5)


def test_a_busy_share_never_leaves_zero_to_one() -> None:
    share = BusyShare()
    share.add(1.0, 5.0)
    share.add(2.0, 9.0)
    assert share.ratio() == 1.0
    share.add(2.5, 1.0)
    assert share.ratio() == 0.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


async def sampled(meter: DutyMeter, clock: Clock, times: int) -> None:
    for _ in range(times):
        clock.time += 0.5
        await meter.sample()


async def test_a_gpu_is_read_and_averaged_over_the_window() -> None:
    clock, duties = Clock(), iter([1.0] * 10 + [0.5] * 5 + [0.0] * 5)
    meter = DutyMeter(lambda: 0.0, clock, lambda: GpuReading(next(duties), 10, 80))
    await sampled(meter, clock, 20)
    assert meter.duty().ratio == pytest.approx(0.25)
    assert meter.duty().source is DutySource.NVML
    assert meter.memory() == GpuReading(0.0, 10, 80)


async def test_without_nvml_the_source_is_the_engine() -> None:
    clock, calls = Clock(), []

    def absent() -> None:
        calls.append(1)

    meter = DutyMeter(lambda: (clock.time - 100) / 4, clock, absent)
    await sampled(meter, clock, 20)
    assert meter.duty().ratio == pytest.approx(0.25)
    assert meter.duty().source is DutySource.ENGINE
    assert meter.memory() is None
    assert len(calls) == 1, "NVML is not loaded again after a failure"


async def test_a_hung_driver_makes_its_readings_absent_and_blocks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock_runtime.telemetry.gpu.NVML_SECONDS", 0.02)
    clock, hangs, calls = Clock(), threading.Event(), []

    def read() -> GpuReading:
        calls.append(1)
        if len(calls) == 2:
            hangs.wait(10)
        return GpuReading(1.0, 1, 2)

    meter = DutyMeter(lambda: 0.0, clock, read)
    await sampled(meter, clock, 14)
    assert meter.duty().source is DutySource.ENGINE
    assert len(calls) == 2, "a hung call is never doubled"
    hangs.set()
    async with asyncio.timeout(5):
        while meter.duty().source is DutySource.ENGINE:
            await meter.sample()
    assert meter.duty() == Duty(1.0, DutySource.NVML)


def test_a_machine_without_a_driver_has_no_reading() -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        assert Nvml().read() is None
    else:
        assert Nvml().read() is not None
