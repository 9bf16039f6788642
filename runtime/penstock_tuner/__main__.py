"""`python -m penstock_tuner`: searches the batch settings of the model in `PENSTOCK_MODEL` on this machine.

It measures a pod of its own under closed-loop load, never one that serves. Killed and started again with the same options, it
continues with the time that is left.
"""

import argparse
import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from penstock_api import names
from penstock_api.types.model import Task
from penstock_tuner.errors import TunerError
from penstock_tuner.front import TriedSettings, as_json, candidate_policy, front, table
from penstock_tuner.load import ClosedLoop, sample_request
from penstock_tuner.pod import MeasuredPod, pod_environment
from penstock_tuner.search import Search, SearchPlan
from penstock_tuner.settings import (
    MAX_DELAY_SHARE,
    LoadMeasurement,
    SearchSpace,
    TunedSettings,
    TuningObjective,
)

SETTLE_SECONDS = (0.5, 5.0)
"""Range of the time before a round is measured, for the queues of the settings before to end: twice the objective in between."""
NO_TEXT = (
    "the task of the model is TextGeneration, and the tuner sends Open Inference requests:"
    " compare settings of generation as a candidate, in shadow (docs/reference/policies.md)"
)
JOURNAL, RESULT, POLICY = "study.journal", "result.json", "policy.json"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(prog="python -m penstock_tuner", description=__doc__)
    options.add_argument(
        "--objective-ms", type=_positive(int), required=True, help="latency that counts as on time"
    )
    options.add_argument(
        "--percent",
        type=_percent,
        default=99.0,
        help="percentage of requests that must be on time",
    )
    options.add_argument(
        "--minutes", type=_positive(float), default=5.0, help="time for all measurements"
    )
    options.add_argument(
        "--clients", type=_positive(int), default=32, help="clients of the closed loop"
    )
    options.add_argument(
        "--folder",
        type=Path,
        default=Path("build/tune"),
        help="folder of the study and the results",
    )
    options.add_argument(
        "--request",
        type=Path,
        help="file with an Open Inference request; default: one row by the model's metadata",
    )
    options.add_argument(
        "--max-batch-size",
        type=_positive(int),
        help="upper end of the batch cap; default: that of the pod",
    )
    options.add_argument(
        "--max-delay-ms",
        type=_positive(int),
        help="upper end of the batching window; default: half of the objective",
    )
    options.add_argument(
        "--backends",
        type=_words,
        default=(),
        help="backends to search, e.g. Eager,OpenVINO; default: that of the model",
    )
    options.add_argument(
        "--threads",
        type=_counts,
        default=(),
        help="numbers of threads to search, e.g. 1,2; default: as in the environment",
    )
    options.add_argument(
        "--round-seconds",
        type=_positive(float),
        default=2.0,
        help="length of the first of three rounds of a trial",
    )
    options.add_argument("--seed", type=int, default=1)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Search and print the front; return the exit status."""
    args = parser().parse_args(argv)
    if names.ENV_MODEL not in os.environ:
        sys.stderr.write(f"error: {names.ENV_MODEL} is not set: give the model's spec in JSON, as a pod has it\n")  # fmt: skip
        return 2
    try:
        tried = asyncio.run(tune(args, os.environ))
    except (TunerError, OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    objective = TuningObjective(args.objective_ms, args.percent)
    best = front(tried, objective)
    _write(args.folder / RESULT, as_json(tried, objective))
    if not best:
        shown = max(tried, key=lambda each: each.measurement.attainment)
        sys.stdout.write(f"{table([shown])}\nno settings of {len(tried)} meet the objective; the nearest are shown\n")  # fmt: skip
        return 1
    _write(args.folder / POLICY, candidate_policy(best[0].settings, "tuned"))
    sys.stdout.write(f"{table(best)}\n{len(tried)} settings tried; results in {args.folder}\n")
    return 0


async def tune(args: argparse.Namespace, environ: Mapping[str, str]) -> list[TriedSettings]:
    """Run the search and return all settings that were measured.

    Raises:
        TunerError: the pod does not run, or the tuner has no requests for its model.
        OSError: a file cannot be read or written.
    """
    if json.loads(environ[names.ENV_MODEL]).get("task") == Task.TEXT_GENERATION:
        raise TunerError(NO_TEXT)
    args.folder.mkdir(parents=True, exist_ok=True)
    objective = TuningObjective(args.objective_ms, args.percent)
    seconds = args.objective_ms / 1000
    async with aiohttp.ClientSession() as session, Pods(environ, args.folder, session) as pods:
        pod = await pods.running(TunedSettings(1, 0, *_first(args)))
        described = await pod.metadata()
        request = sample_request(described) if args.request is None else json.loads(args.request.read_text())  # fmt: skip
        filled = args.clients * int(request["inputs"][0]["shape"][0])  # no batch is larger
        largest = min(await pod.max_batch_size(), filled)
        space = SearchSpace(
            min(args.max_batch_size or largest, largest),
            args.max_delay_ms or max(int(args.objective_ms * MAX_DELAY_SHARE), 1),
            args.backends,
            args.threads,
        )
        plan = SearchPlan(space, objective, 60 * args.minutes, args.round_seconds, args.seed)

        async def measure(settings: TunedSettings, length: float) -> LoadMeasurement:
            running = await pods.running(settings)
            await running.apply(settings)
            loop = ClosedLoop(f"{running.client_url}/v2/models/{described['name']}/infer", request, seconds)  # fmt: skip
            settle = min(max(2 * seconds, SETTLE_SECONDS[0]), SETTLE_SECONDS[1])
            return await loop.measure(args.clients, settle, length)

        study = Search(args.folder / JOURNAL, _study_name(environ, args, space), plan)
        await study.run(measure, time.monotonic, _report)
        return study.tried()


@dataclass(slots=True)
class Pods:
    """The measured pod, started again where settings need a new process."""

    environ: Mapping[str, str]
    folder: Path
    session: aiohttp.ClientSession
    _pod: MeasuredPod | None = None
    _key: tuple[str | None, int | None] = (None, None)

    async def running(self, settings: TunedSettings) -> MeasuredPod:
        """Return a pod that has the settings which are fixed at its start. Raises `PodFailed`."""
        key = (settings.backend, settings.threads)
        if self._pod is None or self._key != key:
            await self._stop()
            environ = pod_environment(self.environ, settings)
            self._pod = await MeasuredPod.start(environ, self.folder / "pod.log", self.session)
            self._key = key
        return self._pod

    async def __aenter__(self) -> "Pods":
        """Return the pods; none is started yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the pod."""
        await self._stop()

    async def _stop(self) -> None:
        if self._pod is not None:
            await self._pod.stop()
            self._pod = None


def _first(args: argparse.Namespace) -> tuple[str | None, int | None]:
    return (
        args.backends[0] if args.backends else None,
        args.threads[0] if args.threads else None,
    )


def _study_name(environ: Mapping[str, str], args: argparse.Namespace, space: SearchSpace) -> str:
    """Return a name that changes with everything that makes measurements incomparable."""
    parts = (environ[names.ENV_MODEL], args.objective_ms, args.percent, args.clients, space)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _report(tried: TriedSettings, share: float) -> None:
    measured = tried.measurement
    settings = ", ".join(f"{key} {value}" for key, value in tried.settings.as_json().items())
    sys.stderr.write(
        f"[{100 * share:3.0f} %] {settings}: {measured.goodput:.1f}/s on time,"
        f" p99 {measured.p99_milliseconds:.0f} ms\n"
    )


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _positive(kind: type[int] | type[float]) -> Any:
    def parse(text: str) -> float:
        number = kind(text)
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0")
        return number

    return parse


def _percent(text: str) -> float:
    number = float(_positive(float)(text))
    if number > 100:
        raise argparse.ArgumentTypeError(f"{text!r} must be at most 100")
    return number


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(_positive(int)(word)) for word in _words(text))


if __name__ == "__main__":
    sys.exit(main())
