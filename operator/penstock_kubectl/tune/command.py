"""`kubectl penstock tune`: starts the tuner's Job or follows the present one, prints the front, and writes a policy. Does I/O."""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from penstock_api import names
from penstock_kubectl.cluster import RESOURCES, ClusterClient
from penstock_kubectl.cost_text import ReplicaPrice, replica_price
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.explain import read
from penstock_kubectl.pool_context import PoolContext, policies_missing, without_variants
from penstock_kubectl.tune import inputs, view
from penstock_kubectl.tune.follow import JobFollower
from penstock_kubectl.tune.job import (
    KeptTrials,
    Manifest,
    TuneOptions,
    config_map_path,
    job_name,
    record_config_map,
)
from penstock_kubectl.tune.load_shape import LoadShape
from penstock_kubectl.tune.picture import svg
from penstock_kubectl.tune.start import remove_all, start
from penstock_tuner.pareto_front import front
from penstock_tuner.record import StudyRecord

CONTINUES = (
    "the Job continues: run the same command again to follow it, or with --delete to remove it\n"
)
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def tune(args: argparse.Namespace, console: Console) -> int:
    """Run the tuner for a pool and print its result; return the exit status. Raises `PluginError`."""
    cluster = ClusterClient(args.context, args.kubeconfig)
    namespace = args.namespace or cluster.namespace
    if args.delete:
        removed = remove_all(cluster, namespace, args.pool)
        console.print(f"{namespace}/{job_name(args.pool)}: {'removed' if removed else 'nothing to remove'}")  # fmt: skip
        return 0
    subject = without_variants(read(cluster, namespace, args.pool))
    if subject.lacks_policies:
        sys.stderr.write(f"warning: {policies_missing(subject)}\n")
    options = inputs.options(args, subject)
    kept, earlier = inputs.stored(cluster, namespace, args.pool)
    load = inputs.load(args, cluster, subject, earlier)
    start(cluster, subject.pool, options, load)
    try:
        record = _follow(cluster, subject, options, load, kept)
    except KeyboardInterrupt:
        sys.stderr.write(CONTINUES)
        return INTERRUPTED
    result = view.TuneResult(subject, options.objective, load, record.tried, _price(args, subject))
    return _report(args, cluster, result, console)


def _follow(
    cluster: ClusterClient,
    subject: PoolContext,
    options: TuneOptions,
    load: LoadShape,
    kept: KeptTrials,
) -> StudyRecord:
    """Follow the Job to its end with a progress bar on standard error; return its trials.

    Raises:
        NotEnoughData: it failed, or its trials cannot be read to the end.
        PluginError: it was deleted, or the API server does not respond.
    """
    pool, console = subject.pool, Console(stderr=True, highlight=False)
    path = config_map_path(pool.namespace, pool.name)
    console.print(load_text(options, load), soft_wrap=True, markup=False)

    def save(latest: KeptTrials) -> None:
        cluster.apply(path, record_config_map(pool, latest, load))

    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.description}", markup=False))  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        display = Display(progress, progress.add_task("", total=60 * options.minutes), options)
        follower = JobFollower(cluster, pool.namespace, job_name(pool.name), *kept, save, display.show)  # fmt: skip
        save(kept)
        end = follower.run()
    if end.failed:
        raise NotEnoughData(f"the tuner failed: {end.message}{_kept(follower.record, options)}")
    return follower.record


def _kept(record: StudyRecord, options: TuneOptions) -> str:
    """Return what the next run of the command does with the trials, empty without any."""
    if not record.tried:
        return ""
    continues = record.spent_seconds < 60 * options.minutes
    remedy = "run the command again to continue" if continues else "they took all of the time: give more --minutes, or remove them with --delete"  # fmt: skip
    return f"; {len(record.tried)} trials are kept: {remedy}"


class Display:
    """The progress bar; without a terminal, a line for each new state."""

    def __init__(self, progress: Progress, task: TaskID, options: TuneOptions) -> None:
        self._progress = progress
        self._task = task
        self._options = options
        self._state = ""

    def show(self, state: str, record: StudyRecord) -> None:
        """Show a state and the best settings so far."""
        if state != self._state:
            self._state = state
            self._progress.console.print(state, soft_wrap=True, markup=False)
        best = front(record.tried, self._options.objective)[:1]
        text = f"{len(record.tried)} trials"
        if best:
            settings, measured = best[0].settings, best[0].measurement
            window = settings.queue_delay_milliseconds
            waits = "" if window is None else f", {window} ms"
            text += f"; best: batch {settings.batch_size}{waits}: {measured.goodput:.1f}/s"
        self._progress.update(self._task, completed=record.spent_seconds, description=text)


def load_text(options: TuneOptions, load: LoadShape) -> str:
    """Return the load in words."""
    if load.generates_text:
        shape = f"tokens of prompts {_list(load.prompt_tokens)} and of answers {_list(load.output_tokens)}"  # fmt: skip
    else:
        shape = f"rows of a request {_list(load.rows)}"
    rate = "" if load.rate is None else f", and {load.rate:g} requests/s on time"
    return f"load: {options.clients} clients, {shape}{rate} ({load.source})"


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _price(args: argparse.Namespace, subject: PoolContext) -> ReplicaPrice | None:
    known = replica_price(subject.pool.status.cost)
    if args.price is None:
        return known
    return ReplicaPrice(args.price, known.currency if known is not None else "")


def _report(
    args: argparse.Namespace, cluster: ClusterClient, result: view.TuneResult, console: Console
) -> int:
    """Print the result, apply the policy, and at last write the picture; return 1 if no settings meet the objective.

    Raises:
        OSError: the picture cannot be written.
    """
    policy = view.policy(result)
    if args.output == "json":
        sys.stdout.write(json.dumps(view.as_json(result, policy), indent=1) + "\n")
    elif args.output == "yaml":
        sys.stdout.write("" if policy is None else view.policy_text(policy))
    else:
        _print(args, result, policy, console)
    if args.apply and policy is not None:
        _apply(cluster, policy)
        if args.output == "table":
            console.print(f"applied: {names.POLICY_KIND} {policy['metadata']['name']}")
    if args.plot is not None:
        pool = result.subject.pool
        title = f"{pool.namespace}/{pool.name}: {len(result.tried)} trials"
        args.plot.write_text(svg(title, result.tried, result.objective), encoding="utf-8")
    return 0 if policy is not None else 1


def _apply(cluster: ClusterClient, policy: Manifest) -> None:
    cluster.apply(f"{RESOURCES}/{names.POLICY_PLURAL}/{policy['metadata']['name']}", policy)


def _print(
    args: argparse.Namespace, result: view.TuneResult, policy: Manifest | None, console: Console
) -> None:
    console.print(view.table(result))
    console.print(f"{len(result.tried)} trials")
    for note in view.notes(result):
        console.print(f"note: {note}", soft_wrap=True, markup=False, highlight=False)
    if args.plot is not None:
        console.print(f"picture: {args.plot}", soft_wrap=True, markup=False)
    if policy is not None and not args.apply:
        sys.stdout.write("---\n" + view.policy_text(policy))
