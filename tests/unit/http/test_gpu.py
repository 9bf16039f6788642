"""Duty: the engine's busy share where NVML has nothing to say."""

import asyncio

import pytest

from penstock_runtime.gpu import BusyShare, DutyMeter, DutySource


def test_the_busy_share_is_that_of_the_last_seconds() -> None:
    share = BusyShare(window_seconds=5.0)
    assert share.ratio() == 0.0
    for second in range(11):
        share.note(100.0 + second, busy_seconds=min(second, 8))
    assert share.ratio() == pytest.approx(3 / 5)


def test_a_busy_share_never_leaves_zero_to_one() -> None:
    share = BusyShare()
    share.note(1.0, 5.0)
    share.note(2.0, 9.0)
    assert share.ratio() == 1.0
    share.note(2.5, 1.0)
    assert share.ratio() == 0.0


async def test_without_nvml_the_source_is_the_engine() -> None:
    busy, clock = iter([0.0, 0.25, 0.5, 0.75]), iter(range(100))
    meter = DutyMeter(lambda: next(busy), lambda: next(clock) / 2, cuda=True)
    sampling = asyncio.create_task(meter.run())
    await asyncio.sleep(0.7)
    sampling.cancel()
    assert meter.duty().source is DutySource.ENGINE
    assert meter.memory() is None
