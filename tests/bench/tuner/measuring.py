"""Measurements of the bench: the sweep of all settings, the tuner as a user starts it, and two settings in turns."""

import asyncio
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from penstock_tuner.load import ClosedLoop, Sender, Tally, infer_sender, quantile, sample_request
from penstock_tuner.pod import MeasuredPod, Pods
from penstock_tuner.settings import Latencies, LoadMeasurement, TunedSettings, TuningObjective
from tests.bench.tuner.plan import CLIENTS, SPACE, TunedModel, settings

SETTLE_SECONDS: Final = 0.5
ROUND_SECONDS: Final = 0.5
"""First round of a trial of the tuner."""
MEETING_SHARES: Final = (0.25, 0.75)
"""Shares of the settings that meet each objective."""


@dataclass(frozen=True, slots=True)
class SweptSettings:
    """Settings of the space, and the latencies of their requests."""

    settings: TunedSettings
    tally: Tally

    def within(self, limit: int) -> LoadMeasurement:
        """Return the figures within an objective of `limit` ms."""
        return self.tally.measurement(TuningObjective(limit))


def sweep(model: TunedModel, seconds: float, passes: int, *, again: bool) -> list[SweptSettings]:
    """Return every setting of the space, each measured for `seconds` in each of the passes, in random order; kept unless `again`.

    The pass with the most requests counts: other load on the machine only takes some away.
    """
    file = model.folder / "sweep.json"
    if again or not file.exists():
        measured = asyncio.run(_sweep(model, seconds, passes))
        file.write_text(json.dumps([_kept(each) for each in measured]))
    return [
        SweptSettings(
            TunedSettings(each["batch"], each["delay"]),
            Tally(
                0.0, each["seconds"], [Latencies(at) for at in each["latencies"]], each["failed"]
            ),
        )
        for each in json.loads(file.read_text())
    ]


def _kept(each: SweptSettings) -> dict[str, Any]:
    return {
        "batch": each.settings.batch_size,
        "delay": each.settings.queue_delay_milliseconds,
        "seconds": each.tally.seconds,
        "failed": each.tally.failed,
        "latencies": [round(latencies.request, 6) for latencies in each.tally.latencies],
    }


def objectives(swept: Sequence[SweptSettings]) -> list[int]:
    """Return two objectives in ms: 99th percentiles that a quarter and three quarters of the settings meet."""
    ascending = sorted(each.within(1).p99_milliseconds for each in swept)
    return [math.ceil(quantile(ascending, share)) for share in MEETING_SHARES]


def best_of(swept: Sequence[SweptSettings], limit: int) -> SweptSettings | None:
    """Return the settings with the highest goodput that meet an objective of `limit` ms; None if none does."""
    meeting = [each for each in swept if each.within(limit).meets(TuningObjective(limit))]
    return max(meeting, key=lambda each: each.within(limit).goodput, default=None)


def tune(model: TunedModel, limit: int, minutes: float) -> dict[str, Any]:
    """Return the result of a new study of the tuner over the same space. Raises `RuntimeError` if it fails."""
    folder = model.folder / f"{limit}-ms"
    for file in folder.glob("*"):
        file.unlink()
    argv = [
        sys.executable, "-m", "penstock_tuner", f"--objective-ms={limit}", f"--minutes={minutes}", f"--clients={CLIENTS}",
        f"--max-batch-size={SPACE.max_batch_size}", f"--max-delay-ms={SPACE.max_queue_delay_milliseconds}",
        f"--round-seconds={ROUND_SECONDS}", f"--folder={folder}",
    ]  # fmt: skip
    if model.request is not None:
        argv.append(f"--request={model.request}")
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=model.environ)
    file = folder / "result.json"
    if not file.exists():
        raise RuntimeError(f"the tuner failed: {done.stderr[-1000:]} {done.stdout[-500:]}")
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def in_turns(
    model: TunedModel, limit: int, both: Sequence[TunedSettings], rounds: int, seconds: float
) -> list[list[LoadMeasurement]]:
    """Return the measurements of each of the settings, whose turns alternate, so that other load affects both."""
    return asyncio.run(_in_turns(model, TuningObjective(limit), both, rounds, seconds))


async def _in_turns(
    model: TunedModel,
    objective: TuningObjective,
    both: Sequence[TunedSettings],
    rounds: int,
    seconds: float,
) -> list[list[LoadMeasurement]]:
    measured: list[list[LoadMeasurement]] = [[] for _ in both]
    async with aiohttp.ClientSession() as session, Pods(model.environ, _ready(model.folder), session) as pods:  # fmt: skip
        pod = await pods.running(both[0])
        send = await _sender(model, pod)
        for number in range(rounds):
            order = list(enumerate(both))
            for index, each in order if number % 2 == 0 else reversed(order):
                tally = await _tally(pod, send, each, seconds)
                measured[index].append(tally.measurement(objective))
    return measured


async def _sweep(model: TunedModel, seconds: float, passes: int) -> list[SweptSettings]:
    order = random.Random(1)  # noqa: S311  an order, not secrets
    every = list(settings())
    best: dict[TunedSettings, Tally] = {}
    async with aiohttp.ClientSession() as session, Pods(model.environ, _ready(model.folder), session) as pods:  # fmt: skip
        pod = await pods.running(every[0])
        send = await _sender(model, pod)
        for number in range(1, passes + 1):
            for each in order.sample(every, len(every)):
                tally = await _tally(pod, send, each, seconds)
                if each not in best or len(tally.latencies) > len(best[each].latencies):
                    best[each] = tally
            sys.stderr.write(
                f"{model.name}: pass {number} of {passes} ({time.strftime('%H:%M')})\n"
            )
    return [SweptSettings(each, best[each]) for each in every]


async def _sender(model: TunedModel, pod: MeasuredPod) -> Sender:
    described = await pod.metadata()
    request = sample_request(described) if model.request is None else json.loads(model.request.read_text())  # fmt: skip
    return infer_sender(f"{pod.client_url}/v2/models/{described['name']}/infer", [request])


async def _tally(pod: MeasuredPod, send: Sender, each: TunedSettings, seconds: float) -> Tally:
    await pod.apply(each)
    loop = ClosedLoop(send, TuningObjective(1))
    return await loop.tally(CLIENTS, SETTLE_SECONDS, seconds)


def _ready(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
