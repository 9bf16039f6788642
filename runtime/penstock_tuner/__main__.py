"""`python -m penstock_tuner`: searches the batch settings of the model in `PENSTOCK_MODEL` on this machine.

It measures a pod of its own, never one that serves. Killed and started again with the same options, it continues with the time
that is left.
"""

import argparse
import asyncio
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from penstock_api import names
from penstock_api.types.model import Task
from penstock_tuner.errors import TunerError
from penstock_tuner.front import as_json, candidate_policy, front, nearest, table
from penstock_tuner.load import ClosedLoop, OpenLoop, sample_request
from penstock_tuner.options import parser
from penstock_tuner.pod import Pods
from penstock_tuner.record import Event, EventKind, StudyRecord, TriedSettings
from penstock_tuner.search import Search, SearchPlan
from penstock_tuner.settings import (
    MAX_DELAY_SHARE,
    MAX_RATE_SHARE,
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
TERMINATED = 128 + signal.SIGTERM
JOURNAL, RESULT, POLICY = "study.journal", "result.json", "policy.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Search and print the front; return the exit status."""
    args = parser().parse_args(argv)
    if names.ENV_MODEL not in os.environ:
        sys.stderr.write(f"error: {names.ENV_MODEL} is not set: give the model's spec in JSON, as a pod has it\n")  # fmt: skip
        return 2
    try:
        tried = asyncio.run(tune(args, os.environ))
    except asyncio.CancelledError:
        return TERMINATED
    except (TunerError, OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        _event(args, Event(EventKind.ERROR, str(error)))
        return 1
    objective = TuningObjective(args.objective_ms, args.percent)
    best = front(tried, objective)
    _write(args.folder / RESULT, as_json(tried, objective))
    if best:
        _write(args.folder / POLICY, candidate_policy(best[0].settings, "tuned"))
        text = f"{table(best)}\n{len(tried)} settings tried; results in {args.folder}"
    else:
        text = f"{table([nearest(tried)])}\nno settings of {len(tried)} meet the objective; the nearest are shown"  # fmt: skip
    if args.events:  # its reader judges the trials
        _event(args, Event(EventKind.DONE))
        return 0
    sys.stdout.write(f"{text}\n")
    return 0 if best else 1


async def tune(args: argparse.Namespace, environ: Mapping[str, str]) -> list[TriedSettings]:
    """Run the search and return all settings that were measured.

    Raises:
        TunerError: the pod does not run, or the tuner has no requests for its model.
        OSError: a file cannot be read or written.
    """
    if json.loads(environ[names.ENV_MODEL]).get("task") == Task.TEXT_GENERATION:
        raise TunerError(NO_TEXT)
    _end_at_sigterm()
    args.folder.mkdir(parents=True, exist_ok=True)
    objective = TuningObjective(args.objective_ms, args.percent)
    seconds = args.objective_ms / 1000
    settle = min(max(2 * seconds, SETTLE_SECONDS[0]), SETTLE_SECONDS[1])
    async with aiohttp.ClientSession() as session, Pods(environ, args.folder, session) as pods:
        pod = await pods.running(_first(args))
        described = await pod.metadata()
        path = f"/v2/models/{described['name']}/infer"
        requests = _requests(args, described)
        space = _space(args, await pod.max_batch_size(), args.clients * _rows(requests))
        plan = SearchPlan(space, objective, 60 * args.minutes, args.round_seconds, args.seed)
        name = _study_name(environ, args, space)

        async def measure(settings: TunedSettings, length: float) -> LoadMeasurement:
            loop = ClosedLoop(await url_of(settings), requests, seconds)
            return await loop.measure(args.clients, settle, length)

        async def measure_at_rate(
            settings: TunedSettings, length: float, goodput: float
        ) -> LoadMeasurement:
            loop = OpenLoop(await url_of(settings), requests, seconds, args.seed)
            return await loop.measure(min(args.rate, MAX_RATE_SHARE * goodput), settle, length)

        async def url_of(settings: TunedSettings) -> str:
            running = await pods.running(settings)
            await running.apply(settings)
            return running.client_url + path

        def report(tried: TriedSettings, spent: float) -> None:
            _event(args, Event(EventKind.TRIAL, study=name, spent_seconds=spent, tried=tried))
            _progress(tried, min(spent / plan.seconds, 1.0))

        study = Search(args.folder / JOURNAL, name, plan)
        _resume(args, study)
        _event(args, Event(EventKind.READY, study=name, spent_seconds=study.spent_seconds))
        at_rate = None if args.rate is None else measure_at_rate
        await study.run(measure, time.monotonic, report, at_rate)
        return study.tried()


def _end_at_sigterm() -> None:
    """Stop the measured pod and end at SIGTERM, which process 1 of a container ignores without a handler."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _requests(args: argparse.Namespace, described: Mapping[str, Any]) -> list[dict[str, Any]]:
    if args.request is not None:
        return [json.loads(args.request.read_text())]
    return [sample_request(described, rows) for rows in args.rows]


def _rows(requests: Sequence[Mapping[str, Any]]) -> int:
    return max(int(request["inputs"][0]["shape"][0]) for request in requests)


def _space(args: argparse.Namespace, pod_max: int, filled: int) -> SearchSpace:
    """Return the space; no batch cap above `filled` rows has an effect."""
    largest = min(pod_max, filled)
    return SearchSpace(
        min(args.max_batch_size or largest, largest),
        args.max_delay_ms or max(int(args.objective_ms * MAX_DELAY_SHARE), 1),
        args.backends,
        args.threads,
        args.disciplines,
        args.dtypes,
    )


def _first(args: argparse.Namespace) -> TunedSettings:
    choices = (args.backends, args.threads, args.disciplines, args.dtypes)
    return TunedSettings(1, 0, *(values[0] if values else None for values in choices))


def _resume(args: argparse.Namespace, study: Search) -> None:
    if args.resume is None or not args.resume.exists() or study.tried():
        return
    try:
        record = StudyRecord.read(args.resume.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TunerError(f"{args.resume}: {error}: remove it to begin again") from error
    if record.tried and not study.restore(record):
        note = (
            "earlier trials are of another model, objective, load or range: the study begins again"
        )
        _event(args, Event(EventKind.NOTE, note))


def _study_name(environ: Mapping[str, str], args: argparse.Namespace, space: SearchSpace) -> str:
    """Return a name that changes with everything that makes measurements incomparable."""
    request = None if args.request is None else args.request.read_text(encoding="utf-8")
    load = (args.clients, args.rows, args.rate, request)
    parts = (args.study, environ[names.ENV_MODEL], args.objective_ms, args.percent, load, space)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def _progress(tried: TriedSettings, share: float) -> None:
    measured = tried.measurement
    settings = ", ".join(f"{key} {value}" for key, value in tried.settings.as_json().items())
    sys.stderr.write(
        f"[{100 * share:3.0f} %] {settings}: {measured.goodput:.1f}/s on time,"
        f" p99 {measured.p99_milliseconds:.0f} ms\n"
    )


def _event(args: argparse.Namespace, event: Event) -> None:
    if args.events:
        sys.stdout.write(event.line() + "\n")
        sys.stdout.flush()


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
