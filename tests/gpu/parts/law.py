"""The law's inputs: the service curve of a pod on the device, its error at three batch sizes, and the p99 that it predicts.

Fit and simulation are those of `tests/bench/fit`, on a module whose products of matrices take milliseconds a row.
"""

import asyncio
import time

import aiohttp

from penstock_api.pod_contract import CurveSums, State
from penstock_simulator.batch_time import ServiceModel
from tests.bench.fit.model import Unfit, compared, fitted, grown
from tests.bench.fit.traffic import Measured, poisson, send
from tests.gpu.modules import BURNER, FEATURES
from tests.gpu.plan import Setting
from tests.gpu.pods import ended, pod, ready
from tests.gpu.record import Record
from tests.support.load.samples import sample_requests
from tests.support.runtime.process import RuntimeProcess

CAP = 16
SIZES = (1, 6, 16)
"""Rows of the batches whose time is compared with the curve."""
LOADS = (0.4, 0.8)
"""Shares of the capacity at the cap whose p99 is predicted."""
ERROR = 0.10
"""Target of every relative error."""
EMULATED = "penstock_runtime.models.emulated:create"
"""The module of a rehearsal: it sleeps, so that a busy machine has a curve too."""
MAX_RATE = 1200.0
"""Requests a second that one client can send evenly."""


def run(setting: Setting, record: Record) -> None:
    """Time single sizes, fit the curve to mixed ones, and compare."""
    module = setting.size(
        {"factory": BURNER, "arguments": {"width": "4096", "tokens": "128", "depth": "160", "dtype": "bfloat16"}},
        {"factory": EMULATED, "arguments": {"a_milliseconds": "40", "c_milliseconds": "10"}},
    )  # fmt: skip
    model = {"name": "law", "source": {"type": "Module", "module": module}}
    limits = {
        "generation": 1, "maxBatchSize": CAP, "maxQueueDepth": 2048,
        "maxQueueDelayMilliseconds": 5, "discipline": "FirstInFirstOut",
    }  # fmt: skip
    with ended() as pods:
        process = pod(setting, model, limits)
        pods.append(process)
        ready(pods)
        measured = {rows: _batch_seconds(process, rows, setting) for rows in SIZES}
        capacity = min(CAP / measured[CAP], MAX_RATE)
        record.figure("capacity at the cap", capacity, f"rows/s at {CAP} rows a batch")
        try:
            service = _calibrated(process, capacity, setting, record)
        except Unfit as unfit:
            if not setting.rehearsal:
                raise
            record.leave_out("the curve and its predictions", f"on a busy machine, {unfit}")
            return
        record.series["curve"] = {"measured": measured, "a": service.a, "c": service.c}
        for rows, seconds in measured.items():
            error = (service.a + service.c * rows) / seconds - 1
            record.figure(f"curve at {rows} rows: relative error", abs(error), f"{1e3 * seconds:.2f} ms measured", ERROR, at_most=True)  # fmt: skip
        for load in setting.size(LOADS, LOADS[:1]):
            with record.section(f"p99 at load {load:g}"):
                times = poisson(load * capacity, setting.size(6.0, 1.0), seed=round(100 * load))
                _compare(service, send(_url(process), times), load, record)


def _url(process: RuntimeProcess) -> str:
    return f"{process.client}/v2/models/law/infer"


def _curve(process: RuntimeProcess) -> CurveSums:
    return State.model_validate_json(process.get("/control/v1/state")[1]).curve


def _batch_seconds(process: RuntimeProcess, rows: int, setting: Setting) -> float:
    """Return the mean seconds of a batch of `rows`, sent one after the other."""
    before = _curve(process)
    asyncio.run(_one_by_one(_url(process), rows, setting.size(20, 3)))
    time.sleep(0.2)  # the report follows the answer
    sums = grown(before, _curve(process))
    return sums.seconds / sums.batches


async def _one_by_one(url: str, rows: int, count: int) -> None:
    samples = sample_requests(1, rows, FEATURES)
    async with aiohttp.ClientSession() as session:
        for sample in samples[:count]:
            async with session.post(url, data=sample.body, headers=sample.headers) as answer:
                body = await answer.read()
                if answer.status != 200 or not sample.accepts(body):
                    raise ValueError(f"{answer.status}: {body[:200]!r}")


def _calibrated(
    process: RuntimeProcess, capacity: float, setting: Setting, record: Record
) -> ServiceModel:
    """Fit the curve to batches of many sizes, under half the capacity."""
    before = _curve(process)
    ran = send(_url(process), poisson(0.5 * capacity, setting.size(5.0, 2.0), seed=100))
    service = fitted(grown(before, _curve(process)), ran, CAP)
    record.figure("curve: a", 1e3 * service.a, "ms")
    record.figure("curve: c", 1e3 * service.c, "ms a row")
    record.figure("curve: overhead of a request", 1e3 * service.overhead, "ms")
    record.check("calibration: every answer is right", holds=not ran.lost, detail=f"{len(ran.sent)} answers, {ran.lost} lost")  # fmt: skip
    return service


def _compare(service: ServiceModel, ran: Measured, load: float, record: Record) -> None:
    """Compare the latencies of a run with those that the simulator has on the fitted curve."""
    for each in compared(service, ran, CAP, load):
        detail = f"{1e3 * each.measured:.1f} ms measured, {1e3 * each.simulated:.1f} predicted"
        record.figure(f"p{each.percentile} at load {load:g}: relative error", abs(each.off), detail, ERROR, at_most=True)  # fmt: skip
    record.check(f"load {load:g}: every answer is right", holds=not ran.lost)
