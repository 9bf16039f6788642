"""Measurements of the bench: the sweep of all settings, the tuner as a user starts it, and two settings in turns."""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from penstock_tuner.load import ClosedLoop, Sender, Tally, infer_sender, sample_request
from penstock_tuner.pod import MeasuredPod, Pods
from penstock_tuner.settings import LoadMeasurement, TunedSettings, TuningObjective
from tests.bench.tuner.plan import CLIENTS, SPACE, TunedModel, settings

SETTLE_SECONDS: Final = 0.5
ROUND_SECONDS: Final = 0.5
"""First round of a trial of the tuner."""


@dataclass(frozen=True, slots=True)
class SweptSettings:
    """Settings of the space with what they did within each objective, by milliseconds."""

    settings: TunedSettings
    within: dict[int, LoadMeasurement]


def sweep(model: TunedModel, seconds: float, *, again: bool) -> list[SweptSettings]:
    """Return every setting of the space, each measured for `seconds`, in random order; kept unless `again`."""
    file = model.folder / "sweep.json"
    if again or not file.exists():
        measured = asyncio.run(_sweep(model, seconds))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(each) for each in measured]))
    return [
        SweptSettings(
            TunedSettings(**each["settings"]),
            {int(limit): LoadMeasurement(**figures) for limit, figures in each["within"].items()},
        )
        for each in json.loads(file.read_text())
    ]


def best_of(swept: Sequence[SweptSettings], limit: int) -> SweptSettings | None:
    """Return the settings with the highest goodput that meet an objective of `limit` ms; None if none does."""
    objective = TuningObjective(limit)
    meeting = [each for each in swept if each.within[limit].meets(objective)]
    return max(meeting, key=lambda each: each.within[limit].goodput, default=None)


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


async def _sweep(model: TunedModel, seconds: float) -> list[SweptSettings]:
    every = list(settings())
    random.Random(1).shuffle(every)  # noqa: S311  an order, not secrets
    measured = []
    async with aiohttp.ClientSession() as session, Pods(model.environ, _ready(model.folder), session) as pods:  # fmt: skip
        pod = await pods.running(every[0])
        send = await _sender(model, pod)
        for number, each in enumerate(every, 1):
            tally = await _tally(pod, send, each, seconds)
            within = {limit: tally.measurement(TuningObjective(limit)) for limit in model.objectives}  # fmt: skip
            measured.append(SweptSettings(each, within))
            sys.stderr.write(f"\r{model.name}: {number} of {len(every)} settings")
    sys.stderr.write(f" ({time.strftime('%H:%M')})\n")
    return measured


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
