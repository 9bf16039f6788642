"""`kubectl penstock simulate`: the pool as it is and under other policies, in the same world. An edge."""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from penstock_api.limits import CurveSums
from penstock_api.types.live import ScalingMode
from penstock_api.types.model import Task
from penstock_kubectl import prometheus, simulate_view
from penstock_kubectl.cases import (
    ObservedLaw,
    PolicyCase,
    WhatIfRequest,
    case,
    scenario,
    service_of,
    startup_p90,
)
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.errors import NotEnoughData, PluginError
from penstock_kubectl.explain import read
from penstock_kubectl.history import DemandHistory, TimeRange, demand, span
from penstock_kubectl.pool_context import PoolContext, policy_object, with_policies
from penstock_kubectl.scenario import Comparison, RecordedWorld
from penstock_operator.observed import PolicyObject
from penstock_simulator.arrivals import steps
from penstock_simulator.outcome import outcome
from penstock_simulator.traces import UnreadableTrace, read_trace
from penstock_simulator.world import RunRecord
from penstock_simulator.world import simulate as run_world

AS_IT_IS = "as it is"
NO_TOKENS = (
    "spec.model.task is TextGeneration, and the simulator knows batches of rows, not steps of generation:"
    " try the policy as a candidate, in shadow (docs/policies.md)"
)
WARM_UP_SHARE = 0.1
"""Of the length: not all of a short history is to be left out of attainment."""
MOST_UNKNOWN = 0.2
"""Of the history: what is bridged over more than that says more of the bridge than of the demand."""
MOST_ARRIVALS = 20_000_000
"""Of which a run takes minutes."""


def simulate(args: argparse.Namespace, console: Console) -> int:
    """Simulate, show a table and write what was asked for; return the exit status. Raises `PluginError`."""
    cluster = ClusterClient(args.context, args.kubeconfig)
    subject = read(cluster, args.namespace or cluster.namespace, args.pool)
    world = _world(cluster, subject, args)
    asked = WhatIfRequest(None if args.mode is None else ScalingMode(args.mode), world.began)
    cases = [case(AS_IT_IS, subject, subject.policies, asked)]
    if args.policy:
        proposed = [one for file in args.policy for one in read_policies(file)]
        name = "with " + ", ".join(file.name for file in args.policy)
        cases.append(case(name, subject, with_policies(subject, proposed), asked))
    runs = _runs(world, cases, console)
    compared = Comparison(world, tuple(cases), tuple(runs), tuple(map(outcome, runs)))
    console.print(simulate_view.table(compared))
    _write(args, console, compared)
    return 0


def read_policies(file: Path) -> list[PolicyObject]:
    """Return the policies of a YAML file.

    Raises:
        Unfit: it holds something else, or none.
        OSError: it cannot be read.
    """
    try:
        documents = [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one]
    except yaml.YAMLError as error:
        raise NotEnoughData(f"{file} is no YAML: {error}") from error
    if not documents or not all(isinstance(one, dict) for one in documents):
        raise NotEnoughData(f"{file} holds no InferencePolicy")
    try:
        return [policy_object(one) for one in documents]
    except NotEnoughData as error:
        raise NotEnoughData(f"{file}: {error}") from error


def _world(cluster: ClusterClient, subject: PoolContext, args: argparse.Namespace) -> RecordedWorld:
    url, sums = prometheus.url_of(subject, args.prometheus), None
    over = span(time.time(), args.last)
    if subject.pool.spec.model.task is Task.TEXT_GENERATION:
        raise NotEnoughData(NO_TOKENS)
    if args.trace is not None:
        try:
            arrivals, source = read_trace(args.trace).times, f"trace {args.trace.name}"
            began = over.end
        except UnreadableTrace as error:
            raise NotEnoughData(str(error)) from error
    else:
        if url is None:
            raise NotEnoughData(f"{prometheus.WHERE}, or --trace FILE")
        known = _demand(cluster, url, subject, over)
        arrivals, began = steps(known.rates, args.seed), known.began
        source = f"Poisson at the rates of the last {args.last / 3600:.3g} h{_gaps(known)}"
    if not 2 <= len(arrivals) <= MOST_ARRIVALS:
        raise NotEnoughData(
            f"{source}: {len(arrivals)} rows, wants 2 to {MOST_ARRIVALS}: change --last or --trace"
        )
    if url is not None and args.curve is None:
        sums = _sums(cluster, url, subject, args)
    start = args.start if args.start is not None else subject.pool.status.ready_replicas or 1
    return RecordedWorld(
        subject, arrivals, source, service_of(subject, args.curve, sums),
        startup_p90(subject, args.startup_p90), max(start, 1), began, args.seed,
    )  # fmt: skip


def _demand(
    cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange
) -> DemandHistory:
    """Return the pool's demand over the span.

    Raises:
        Unfit: too much of it is not known.
        Unreachable: Prometheus does not answer.
    """
    found = demand(prometheus.read(cluster, url, subject, over).of("demand"), over)
    if found.unknown > MOST_UNKNOWN:
        raise NotEnoughData(
            f"{100 * found.unknown:.0f} % of the demand is not known to Prometheus, wants at most"
            f" {100 * MOST_UNKNOWN:.0f} %: change --last, or give --trace FILE"
        )
    return found


def _gaps(found: DemandHistory) -> str:
    if not found.unknown:
        return ""
    return f", {100 * found.unknown:.0f} % of it unknown, bridged between what is known"


def _sums(
    cluster: ClusterClient, url: str, subject: PoolContext, args: argparse.Namespace
) -> CurveSums | None:
    try:
        return prometheus.curve_sums(cluster, url, subject, span(time.time(), args.last))
    except PluginError:
        return None


def _runs(world: RecordedWorld, cases: Sequence[PolicyCase], console: Console) -> list[RunRecord]:
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )  # fmt: skip
    length = float(world.arrivals[-1])
    with Progress(*columns, console=console, transient=True) as progress:
        return [_run(world, one, progress, length) for one in cases]


def _run(world: RecordedWorld, one: PolicyCase, progress: Progress, length: float) -> RunRecord:
    task = progress.add_task(one.name, total=length)
    law = ObservedLaw(one.name, one.law, lambda passed: progress.update(task, completed=passed))
    given = scenario(one, world.service, world.startup_p90, world.start, world.seed)
    given = replace(given, warm_up_seconds=min(given.warm_up_seconds, WARM_UP_SHARE * length))
    found = run_world(given, law, world.arrivals)
    progress.update(task, completed=length)
    return found


def _write(args: argparse.Namespace, console: Console, compared: Comparison) -> None:
    if args.plot is not None:
        simulate_view.plot(args.plot, compared)
        console.print(f"plot: {args.plot}")
    if args.json is not None:
        text = json.dumps(simulate_view.figures(compared), indent=1) + "\n"
        args.json.write_text(text, encoding="utf-8")
        console.print(f"figures: {args.json}")
