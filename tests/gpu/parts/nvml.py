"""NVML: memory compared with nvidia-smi, and duty under loads whose share is known.

The meter is the pod's own (`telemetry/gpu.py`). Without NVML, as in a rehearsal, it reports the engine's busy share.
"""

import asyncio
import shutil
import subprocess
import time

import torch

from penstock_runtime.telemetry.gpu import SAMPLE_SECONDS, DutyMeter, DutySource, Nvml
from tests.gpu.plan import Setting
from tests.gpu.record import Record

LOADS = (0.0, 0.5, 1.0)
"""Shares of the time in which a kernel runs."""
PERIOD_SECONDS = 0.1
DUTY_ERROR = 0.1
"""Tolerated difference of the duty from the load's share."""
MEMORY_ERROR = 0.01
"""Tolerated difference of used memory from nvidia-smi's, as a share of the card's; they count the driver's reserve differently."""
_QUERY = "utilization.gpu,memory.used,memory.total,mig.mode.current"
_SMI = ("nvidia-smi", "--id=0", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits")


def run(setting: Setting, record: Record) -> None:
    """Compare memory, then measure duty under each load."""
    read = Nvml().read if setting.on_cuda else None
    if read is None or shutil.which(_SMI[0]) is None:
        why = "there is no CUDA device" if read is None else f"there is no {_SMI[0]}"
        record.leave_out("memory against nvidia-smi", why)
    else:
        with record.section("memory against nvidia-smi"):
            _memory(record, setting)
    load = Load(setting)
    for share in LOADS:
        with record.section(f"duty at a load of {share:g}"):
            measured = asyncio.run(_duty(load, share, setting, read))
            record.figure(f"duty at a load of {share:g}", measured[0], measured[1])
            record.figure(
                f"its error at {share:g}", abs(measured[0] - share), "", DUTY_ERROR, at_most=True
            )


def _memory(record: Record, setting: Setting) -> None:
    ballast = torch.ones(2**30, dtype=torch.uint8, device=setting.device)
    reading = Nvml().read()
    done = subprocess.run(_SMI, capture_output=True, text=True, timeout=10, check=True)
    _, used, total, mig = (field.strip() for field in done.stdout.split(","))
    record.check("NVML reads the card", holds=reading is not None, detail=f"MIG {mig}")
    if reading is None:
        return
    ours, theirs = reading.memory_used / 2**20, float(used)
    record.figure("memory used by NVML", ours, f"MiB; nvidia-smi says {theirs:,.0f}")
    record.figure(
        "difference as a share of the card",
        abs(ours - theirs) / float(total),
        "",
        MEMORY_ERROR,
        at_most=True,
    )
    del ballast


class Load:
    """Work that takes a known time on the device."""

    def __init__(self, setting: Setting) -> None:
        self._on_cuda = setting.on_cuda
        size = setting.size(4096, 64)
        self._matrix = torch.ones(size, size, device=setting.device)
        self._out = torch.empty_like(self._matrix)
        self.busy_seconds = 0.0
        self.run(0.05)

    def run(self, seconds: float) -> None:
        """Keep the device busy for `seconds`."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            torch.mm(self._matrix, self._matrix, out=self._out)
            if self._on_cuda:
                torch.cuda.synchronize()
        self.busy_seconds += time.monotonic() - began


async def _duty(
    load: Load, share: float, setting: Setting, read: object
) -> tuple[float, DutySource]:
    """Return the meter's duty after it sampled a load of `share` for its whole window, and its source."""
    meter = DutyMeter(lambda: load.busy_seconds, time.monotonic, read)  # type: ignore[arg-type]
    seconds, stop = setting.size(6.0, 0.6), asyncio.Event()

    def work() -> None:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if share:
                load.run(share * PERIOD_SECONDS)
            time.sleep((1.0 - share) * PERIOD_SECONDS)

    async def sample() -> None:
        await asyncio.sleep(setting.size(0.5, 0.0))  # the driver averages over up to a second
        while not stop.is_set():
            await meter.sample()
            await asyncio.sleep(min(SAMPLE_SECONDS, seconds / 8))

    sampling = asyncio.create_task(sample())
    await asyncio.to_thread(work)
    stop.set()
    duty = meter.duty()
    await sampling
    return duty.ratio, duty.source
