"""`kubectl penstock simulate`: simulates the pool as it is and under other policies. Does I/O."""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from penstock_api.pod_contract import CurveSums
from penstock_api.types.model import Task
from penstock_api.types.scaling import ScalingMode
from penstock_kubectl import prometheus, simulate_view
from penstock_kubectl.cases import (
    CaseLabels,
    ObservedLaw,
    PolicyCase,
    WhatIfRequest,
    case,
    scenario,
    service_of,
    startup_p90,
)
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.cost_text import replica_price
from penstock_kubectl.errors import NotEnoughData, PluginError
from penstock_kubectl.explain import read
from penstock_kubectl.history import DemandHistory, TimeRange, demand, span
from penstock_kubectl.pool_context import (
    PoolContext,
    policy_object,
    with_policies,
    without_variants,
)
from penstock_kubectl.savings import (
    HPA,
    ReplicaPrice,
    Saving,
    baseline_cap,
    baseline_law,
    fixed_scenario,
    free_scenario,
    lowest_count,
)
from penstock_kubectl.scenario import Comparison, RecordedWorld, generation, steps_of
from penstock_operator.decide.scaling.law import Law
from penstock_operator.observed import PolicyObject
from penstock_simulator.arrivals import steps
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.outcome import RunSummary, outcome
from penstock_simulator.pods.step_time import StepModel, distinct
from penstock_simulator.scenario import Scenario
from penstock_simulator.simulation import RunRecord
from penstock_simulator.simulation import simulate as run_world
from penstock_simulator.traces import UnreadableTrace, read_trace

AS_IT_IS = "as it is"
NO_BATCHES = "--batch: the simulated pods of a pool of task TextGeneration take no batch work"
STEP_TOKENS = 512
"""Tokens of a step if the pool sets none, as in the runtime."""
FIXED = "--savings: scaling.mode {} fixes the replica count, so the law saves nothing: simulate the law by --mode Auto"
WARM_UP_SHARE = 0.1
"""Limit of the warm-up relative to the length, so that attainment covers most of a short history."""
MAX_UNKNOWN = 0.2
"""Limit of the unknown share of the history; more interpolation would not represent the demand."""
MAX_ARRIVALS = 20_000_000
"""Limit of arrivals, for which a run takes minutes."""


def simulate(args: argparse.Namespace, console: Console) -> int:
    """Simulate, print a table and write the requested files; return the exit status. Raises `PluginError`."""
    cluster = ClusterClient(args.context, args.kubeconfig)
    subject = without_variants(read(cluster, args.namespace or cluster.namespace, args.pool))
    world = _world(cluster, subject, args)
    options = WhatIfRequest(None if args.mode is None else ScalingMode(args.mode), world.began)
    cases = [case(AS_IT_IS, subject, subject.policies, options)]
    if args.policy:
        proposed = [policy for file in args.policy for policy in read_policies(file)]
        name = "with " + ", ".join(file.name for file in args.policy)
        cases.append(case(name, subject, with_policies(subject, proposed), options))
    compared = _compare(args, world, cases, console)
    console.print(simulate_view.table(compared))
    for line in simulate_view.notes(compared):
        console.print(line, soft_wrap=True)
    _write(args, console, compared)
    return 0


def read_policies(file: Path) -> list[PolicyObject]:
    """Return the policies of a YAML file.

    Raises:
        NotEnoughData: the file contains other objects, or none.
        OSError: the file cannot be read.
    """
    try:
        documents = [
            document
            for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
            if document
        ]
    except yaml.YAMLError as error:
        raise NotEnoughData(f"{file} is not valid YAML: {error}") from error
    if not documents or not all(isinstance(document, dict) for document in documents):
        raise NotEnoughData(f"{file} contains no InferencePolicy")
    try:
        return [policy_object(document) for document in documents]
    except NotEnoughData as error:
        raise NotEnoughData(f"{file}: {error}") from error


def _world(cluster: ClusterClient, subject: PoolContext, args: argparse.Namespace) -> RecordedWorld:
    url, sums = prometheus.url_of(subject, args.prometheus), None
    over = span(time.time(), args.last)
    generates, lengths = subject.pool.spec.model.task is Task.TEXT_GENERATION, None
    if generates and args.batch:
        raise NotEnoughData(NO_BATCHES)
    if args.trace is not None:
        try:
            trace, source = read_trace(args.trace), f"trace {args.trace.name}"
            arrivals, lengths, began = trace.times, trace.lengths, over.end
        except UnreadableTrace as error:
            raise NotEnoughData(str(error)) from error
    else:
        if url is None:
            raise NotEnoughData(f"{prometheus.WHERE}, or --trace FILE")
        known = _demand(cluster, url, subject, over)
        arrivals, began = steps(known.rates, args.seed), known.began
        source = f"Poisson at the rates of the last {args.last / 3600:.3g} h{_gaps(known)}"
    if not 2 <= len(arrivals) <= MAX_ARRIVALS:
        raise NotEnoughData(
            f"{source}: {len(arrivals)} rows, expected 2 to {MAX_ARRIVALS}: change --last or --trace"
        )
    text = None
    if generates:
        arrivals = distinct(arrivals)
        model = _steps(cluster, url, subject, args)
        text = generation(model, arrivals, lengths, args.tokens, args.seed)
        service = ServiceModel(model.a, model.d, overhead=model.overhead)
    else:
        if url is not None and args.curve is None:
            sums = _sums(cluster, url, subject, args)
        service = service_of(subject, args.curve, sums)
    start = args.start if args.start is not None else subject.pool.status.ready_replicas or 1
    return RecordedWorld(
        subject, arrivals, source, service, startup_p90(subject, args.startup_p90),
        max(start, 1), began, args.seed, tuple(args.batch), text,
    )  # fmt: skip


def _steps(
    cluster: ClusterClient, url: str | None, subject: PoolContext, args: argparse.Namespace
) -> StepModel:
    """Return the time of a step. Raises `NotEnoughData`."""
    sums = None
    if url is not None and args.steps is None:
        with suppress(PluginError):
            sums = prometheus.step_sums(cluster, url, subject, span(time.time(), args.last))
    return steps_of(args.steps, sums, args.cache_tokens)


def _demand(
    cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange
) -> DemandHistory:
    """Return the pool's demand over the range.

    Raises:
        NotEnoughData: too much of it is unknown.
        Unreachable: Prometheus is unreachable.
    """
    history = demand(prometheus.read(cluster, url, subject, over).of("demand"), over)
    if history.unknown > MAX_UNKNOWN:
        raise NotEnoughData(
            f"{100 * history.unknown:.0f} % of the demand is unknown to Prometheus, expected at most"
            f" {100 * MAX_UNKNOWN:.0f} %: change --last, or give --trace FILE"
        )
    return history


def _gaps(history: DemandHistory) -> str:
    if not history.unknown:
        return ""
    return f", {100 * history.unknown:.0f} % of it unknown and interpolated"


def _sums(
    cluster: ClusterClient, url: str, subject: PoolContext, args: argparse.Namespace
) -> CurveSums | None:
    try:
        return prometheus.curve_sums(cluster, url, subject, span(time.time(), args.last))
    except PluginError:
        return None


def _price(args: argparse.Namespace, subject: PoolContext) -> ReplicaPrice | None:
    """Return the price of an hour of a replica: as requested, else that of the pool's status."""
    known = replica_price(subject.pool.status.cost)
    if args.price is None:
        return known
    return ReplicaPrice(args.price, known.currency if known is not None else "")


def _compare(
    args: argparse.Namespace, world: RecordedWorld, cases: Sequence[PolicyCase], console: Console
) -> Comparison:
    """Run every case, and the baselines if savings are requested.

    Raises:
        NotEnoughData: savings are requested, and the law does not set the count.
    """
    if args.savings and not cases[0].moves:
        raise NotEnoughData(FIXED.format(cases[0].effective.scaling_mode.value))
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        labels = [case.labels for case in cases]
        runs = [
            _run(world, case.name, case.law, _scenario(world, case), progress) for case in cases
        ]
        if args.savings:
            baselines = list(_baselines(world, cases[0], outcome(runs[0]), progress))
            labels += [label for label, _ in baselines]
            runs += [run for _, run in baselines]
    outcomes = tuple(map(outcome, runs))
    saved = tuple(Saving(outcomes[0], other) for other in outcomes[len(cases) :])
    return Comparison(
        world, tuple(labels), tuple(runs), outcomes, _price(args, world.subject), saved
    )


def _baselines(
    world: RecordedWorld, subject: PolicyCase, own: RunSummary, progress: Progress
) -> Iterator[tuple[CaseLabels, RunRecord]]:
    """Yield the runs of the lowest fixed count that attains, or of the highest if none does, and of the HPA."""
    given, cap = _scenario(world, subject), baseline_cap(subject)
    bounds = subject.effective.law

    @cache
    def fixed(count: int) -> RunRecord:
        within = fixed_scenario(given, subject, count)
        name = f"fixed-{count}"
        return _run(world, name, baseline_law(name, given, cap), within, progress)

    count = lowest_count(
        lambda count: outcome(fixed(count)).attains, own.mean_replicas, bounds.max_replicas
    )
    yield CaseLabels(f"fixed-{count}", "fixed count", f"{count}"), fixed(count)
    within = free_scenario(given, subject)
    run = _run(world, HPA, baseline_law(HPA, given, cap), within, progress)
    yield CaseLabels(HPA, "HPA", f"{bounds.min_replicas}-{bounds.max_replicas}"), run


def _scenario(world: RecordedWorld, subject: PolicyCase) -> Scenario:
    given = scenario(subject, world.service, world.startup_p90, world.start, world.seed)
    length, spec, text = float(world.arrivals[-1]), subject.effective, world.generation
    if text is not None:
        tokens = spec.max_batched_tokens or max(STEP_TOKENS, spec.law.size_max)
        text = replace(text, steps=replace(text.steps, step_tokens=tokens))
    return replace(
        given,
        generation=text,
        warm_up_seconds=min(given.warm_up_seconds, WARM_UP_SHARE * length),
        batches=world.batches,
        batch_work=spec.batch_work,
    )


def _run(
    world: RecordedWorld, name: str, law: Law[Any], given: Scenario, progress: Progress
) -> RunRecord:
    length = float(world.arrivals[-1])
    task = progress.add_task(name, total=length)
    watched = ObservedLaw(name, law, lambda passed: progress.update(task, completed=passed))
    record = run_world(given, watched, world.arrivals)
    progress.update(task, completed=length)
    return record


def _write(args: argparse.Namespace, console: Console, compared: Comparison) -> None:
    if args.plot is not None:
        simulate_view.plot(args.plot, compared)
        console.print(f"plot: {args.plot}")
    if args.json is not None:
        text = json.dumps(simulate_view.figures(compared), indent=1) + "\n"
        args.json.write_text(text, encoding="utf-8")
        console.print(f"figures: {args.json}")
