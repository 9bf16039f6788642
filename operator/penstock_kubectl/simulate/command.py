"""`kubectl penstock simulate`: simulates the pool as it is and under other policies. Does I/O."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from penstock_api.types.scaling import ScalingMode
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.explain import read
from penstock_kubectl.pool_context import policies_missing, proposed_policy, with_policies
from penstock_kubectl.simulate import mixes, runs, view
from penstock_kubectl.simulate.cases import PolicyCase, WhatIfRequest, as_it_is, case
from penstock_kubectl.simulate.recorded import recorded
from penstock_kubectl.simulate.scenario import AlikePods, Comparison, MixedPods, RecordedWorld
from penstock_operator.observed import PolicyObject

FIXED = "--savings: scaling.mode {} fixes the replica count, so the law saves nothing: simulate the law by --mode Auto"


def simulate(args: argparse.Namespace, console: Console) -> int:
    """Simulate, print a table and write the requested files; return the exit status. Raises `PluginError`."""
    if args.plot is not None:
        view.check_plot(args.plot)
    cluster = ClusterClient(args.context, args.kubeconfig)
    subject = read(cluster, args.namespace or cluster.namespace, args.pool)
    if subject.unread:
        sys.stderr.write(f"warning: {policies_missing(subject)}\n")
    world, pods = recorded(cluster, subject, args)
    options = WhatIfRequest(None if args.mode is None else ScalingMode(args.mode), world.began)
    cases = [as_it_is(subject, options)]
    if args.policy:
        proposed = [policy for file in args.policy for policy in read_policies(file)]
        name = "with " + ", ".join(file.name for file in args.policy)
        cases.append(case(name, subject, with_policies(subject, proposed), options))
    compared = _compare(args, (world, pods), cases, console)
    console.print(view.table(compared))
    for line in view.notes(compared):
        console.print(line, soft_wrap=True, markup=False)
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
        return [proposed_policy(document) for document in documents]
    except NotEnoughData as error:
        raise NotEnoughData(f"{file}: {error}") from error


def _compare(
    args: argparse.Namespace,
    given: tuple[RecordedWorld, AlikePods | MixedPods],
    cases: Sequence[PolicyCase],
    console: Console,
) -> Comparison:
    """Run every case, and the baselines if savings are requested.

    Raises:
        NotEnoughData: savings are requested, and the law does not set the count.
    """
    world, pods = given
    if args.savings and not cases[0].moves:
        raise NotEnoughData(FIXED.format(cases[0].effective.scaling_mode.value))
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        if isinstance(pods, MixedPods):
            return mixes.compare(world, pods, cases, progress, savings=args.savings)
        return runs.compare(world, pods, cases, progress, savings=args.savings)


def _write(args: argparse.Namespace, console: Console, compared: Comparison) -> None:
    if args.plot is not None:
        view.plot(args.plot, compared)
        console.print(f"plot: {args.plot}", markup=False)
    if args.json is not None:
        text = json.dumps(view.figures(compared), indent=1) + "\n"
        args.json.write_text(text, encoding="utf-8")
        console.print(f"figures: {args.json}", markup=False)
