"""`python -m penstock_tuner`: searches the batch settings of the model in `PENSTOCK_MODEL` on this machine.

It measures a pod of its own, never one that serves. Killed and started again with the same options, it continues with the time
that is left.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp

from penstock_api import names
from penstock_api.pod_contract import MAX_QUEUE_DELAY_MILLISECONDS
from penstock_api.types.model import Task
from penstock_api.types.objectives import ObjectiveMetric
from penstock_tuner.errors import NoObjective, PodFailed, TunerError
from penstock_tuner.generation_load import generation_sender, shapes
from penstock_tuner.load import infer_sender, sample_request
from penstock_tuner.options import check_threads, check_words, parser
from penstock_tuner.options import objective as objective_of
from penstock_tuner.pareto_front import as_json, candidate_policy, failures, front, nearest, table
from penstock_tuner.pod import MeasuredPod, Pods, engine_threads, usable_cpus
from penstock_tuner.record import Event, EventKind, StudyRecord, TriedSettings
from penstock_tuner.search import Search, SearchPlan
from penstock_tuner.settings import MAX_DELAY_SHARE, SearchSpace, TunedSettings, TuningObjective
from penstock_tuner.study_name import study_name
from penstock_tuner.trials import OfferedLoad, TrialMeasurer

ONE_SHOT_ONLY = "the model generates no text: --first-token-ms, --output-token-ms and --batched-tokens do not apply, give --objective-ms"
COMPLETIONS = "/v1/completions"
FIRST_TOKEN_SECONDS, OUTPUT_TOKEN_SECONDS = 1.0, 0.1
"""Times for generation where the objective does not limit them."""
TERMINATED = 128 + signal.SIGTERM
JOURNAL, RESULT, POLICY = "study.journal", "result.json", "policy.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Search and print the front; return the exit status."""
    args = parser().parse_args(argv)
    if names.ENV_MODEL not in os.environ:
        sys.stderr.write(f"error: {names.ENV_MODEL} is not set: give the model's spec in JSON, as a pod has it\n")  # fmt: skip
        return 2
    try:
        objective = objective_of(args)
        tried = asyncio.run(tune(args, objective, os.environ))
    except asyncio.CancelledError:
        return TERMINATED
    except (TunerError, OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        _event(args, Event(EventKind.ERROR, str(error)))
        return 1
    best = front(tried, objective)
    (args.folder / POLICY).unlink(missing_ok=True)  # that of an earlier result
    _write(args.folder / RESULT, as_json(tried, objective))
    if best:
        _write(args.folder / POLICY, candidate_policy(best[0].settings, "tuned"))
        text = f"{table(best)}\n{len(tried)} trials; results in {args.folder}"
    else:
        text = f"{table([nearest(tried)])}\nnone of {len(tried)} trials meets the objective; the nearest is shown"  # fmt: skip
    text = "\n".join([text, *failures(tried)])
    if args.events:  # its reader judges the trials
        _event(args, Event(EventKind.DONE))
        return 0
    sys.stdout.write(f"{text}\n")
    return 0 if best else 1


async def tune(
    args: argparse.Namespace, objective: TuningObjective, environ: Mapping[str, str]
) -> list[TriedSettings]:
    """Run the search and return all settings that were measured.

    Raises:
        TunerError: the pod does not run, the tuner has no requests or no objective for its model, an option has another value
            than its model has, or no trial has ended.
        OSError: a file cannot be read or written.
    """
    _end_at_sigterm()
    args.folder.mkdir(parents=True, exist_ok=True)
    generates = _generates(environ)
    check_words(args, generates=generates)
    check_threads(args, engine_threads(environ, usable_cpus()))
    if not generates and (args.first_token_ms or args.output_token_ms or args.batched_tokens):
        raise NoObjective(ONE_SHOT_ONLY)
    seconds = _seconds(args, objective)
    async with aiohttp.ClientSession() as session, Pods(environ, args.folder, session) as pods:
        pod = await first_pod(pods, _starts(args, generates=generates))
        load = await (_text_load(args, pod) if generates else _infer_load(args, pod))
        await load.check(pod)
        space = _space(args, await pod.max_batch_size(), args.clients * load.rows, generates=generates)  # fmt: skip
        plan = SearchPlan(space, objective, 60 * args.minutes, args.round_seconds, args.seed)
        name = study_name(environ, args, objective, generates=generates)

        def report(tried: TriedSettings, spent: float) -> None:
            _event(args, Event(EventKind.TRIAL, study=name, spent_seconds=spent, tried=tried))
            _progress(tried, min(spent / plan.seconds, 1.0))

        study = Search(args.folder / JOURNAL, name, plan)
        _resume(args, study)
        _event(args, Event(EventKind.READY, study=name, spent_seconds=study.spent_seconds))
        trials = TrialMeasurer(pods, load, objective, seconds, args.clients, args.rate or 0.0, args.seed)  # fmt: skip
        at_rate = None if args.rate is None else trials.at_rate
        await study.run(trials.closed, time.monotonic, report, at_rate)
        return study.ended()


async def first_pod(pods: Pods, starts: Iterable[TunedSettings]) -> MeasuredPod:
    """Return the pod of the first settings with which one serves. Raises the first `PodFailed` if there are none."""
    failures = list[PodFailed]()
    for settings in starts:
        try:
            return await pods.running(settings)
        except PodFailed as error:
            failures.append(error)
    raise failures[0]


def _generates(environ: Mapping[str, str]) -> bool:
    model: Mapping[str, Any] = json.loads(environ[names.ENV_MODEL])
    return bool(model.get("task") == Task.TEXT_GENERATION)


def _seconds(args: argparse.Namespace, objective: TuningObjective) -> float:
    """Return the time that the objective allows for a request, of text that for its longest answer."""
    by_metric = {limit.metric: limit.milliseconds / 1000 for limit in objective.limits}
    if (whole := by_metric.get(ObjectiveMetric.REQUEST_LATENCY)) is not None:
        return whole
    first = by_metric.get(ObjectiveMetric.TIME_TO_FIRST_TOKEN, FIRST_TOKEN_SECONDS)
    each = by_metric.get(ObjectiveMetric.TIME_PER_OUTPUT_TOKEN, OUTPUT_TOKEN_SECONDS)
    return float(first + each * max(args.output_tokens))


async def _infer_load(args: argparse.Namespace, pod: MeasuredPod) -> OfferedLoad:
    described = await pod.metadata()
    requests = _requests(args, described)
    path = f"/v2/models/{described['name']}/infer"
    return OfferedLoad(
        lambda url: infer_sender(url + path, requests), len(requests), _rows(requests)
    )


async def _text_load(args: argparse.Namespace, pod: MeasuredPod) -> OfferedLoad:
    model, requests = await pod.model(), shapes(args.prompt_tokens, args.output_tokens)
    return OfferedLoad(
        lambda url: generation_sender(url + COMPLETIONS, model, requests, args.seed),
        len(requests),
        1,
    )


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


def _space(args: argparse.Namespace, pod_max: int, filled: int, *, generates: bool) -> SearchSpace:
    """Return the space; no batch cap above `filled` rows has an effect, and generation has no window."""
    largest = min(pod_max, filled)
    window = None if generates else args.max_delay_ms or max(int(args.objective_ms * MAX_DELAY_SHARE), 1)  # fmt: skip
    return SearchSpace(
        min(args.max_batch_size or largest, largest),
        None if window is None else min(window, MAX_QUEUE_DELAY_MILLISECONDS),
        args.backends,
        args.threads,
        args.disciplines,
        args.dtypes,
        args.batched_tokens,
    )


def _starts(args: argparse.Namespace, *, generates: bool) -> Iterator[TunedSettings]:
    """Yield settings for the first pod: those that come first, then other backends and data types."""
    threads = args.threads[0] if args.threads else None
    for backend, dtype in product(args.backends or (None,), args.dtypes or (None,)):
        yield TunedSettings(1, None if generates else 0, backend, threads, dtype=dtype)


def _resume(args: argparse.Namespace, study: Search) -> None:
    if args.resume is None or not args.resume.exists() or study.tried():
        return
    try:
        record = StudyRecord.read(args.resume.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TunerError(f"{args.resume}: {error}: remove it to begin again") from error
    if record.tried and not study.restore(record, fresh=time.time_ns()):
        note = (
            "earlier trials are of another model, objective, load or range: the study begins again"
        )
        _event(args, Event(EventKind.NOTE, note))


def _progress(tried: TriedSettings, share: float) -> None:
    measured = tried.measurement
    settings = ", ".join(f"{key} {value}" for key, value in tried.settings.as_json().items())
    figures = f"{measured.goodput:.1f}/s on time, p99 {measured.p99_milliseconds:.0f} ms"
    sys.stderr.write(f"[{100 * share:3.0f} %] {settings}: {tried.failure or figures}\n")


def _event(args: argparse.Namespace, event: Event) -> None:
    if args.events:
        sys.stdout.write(event.line() + "\n")
        sys.stdout.flush()


def _write(file: Path, value: Any) -> None:
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(file)


if __name__ == "__main__":
    sys.exit(main())
