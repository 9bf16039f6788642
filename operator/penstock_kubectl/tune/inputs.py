"""What a tuner of the pool needs: an objective, a load like the pool's own, and the trials of an earlier one. Does I/O."""

import argparse
import sys
from collections.abc import Sequence

from penstock_api.types.model import Task
from penstock_api.types.objectives import ObjectiveMetric
from penstock_kubectl import history, prometheus
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.errors import NotEnoughData, PluginError
from penstock_kubectl.pool_context import PoolContext, in_force, objectives
from penstock_kubectl.tune import load_shape
from penstock_kubectl.tune.job import (
    ANNOTATION_JOB,
    LOAD_KEY,
    RECORD_KEY,
    KeptTrials,
    TuneOptions,
    config_map_path,
    own,
)
from penstock_kubectl.tune.load_shape import LoadShape
from penstock_operator.decide.spec.live_fields import DISCIPLINE, MAX_BATCHED_TOKENS
from penstock_operator.decide.spec.origins import BUILT_IN
from penstock_tuner.record import StudyRecord
from penstock_tuner.settings import OUTPUT_TOKENS, PROMPT_TOKENS, LatencyLimit, TuningObjective


def options(args: argparse.Namespace, subject: PoolContext) -> TuneOptions:
    """Return what is searched; discipline and tokens of a step that are not are those in force.

    Raises:
        NotEnoughData: there is no objective, tokens of a step are searched of a pool that generates none, or a replica has
            several pods.
    """
    if subject.pool.spec.pods_per_replica > 1:
        raise NotEnoughData(
            "a replica of this pool has several pods (spec.parallelism.nodes), and a tuner has one: tune a pool of one node"
        )
    if args.batched_tokens and not generates_text(subject):
        raise NotEnoughData("--batched-tokens is for pools of task TextGeneration")
    return TuneOptions(
        objective=objective(args, subject),
        minutes=args.minutes,
        clients=args.clients,
        backends=args.backends,
        threads=args.threads,
        disciplines=args.disciplines or _live(subject, DISCIPLINE),
        dtypes=args.dtypes,
        batched_tokens=args.batched_tokens or _tokens(subject),
    )


def _live(subject: PoolContext, field: str) -> tuple[str, ...]:
    """Return the value in force of a live field; none if it is the built-in, which a pod has by itself."""
    reported = in_force(subject).get(field)
    return () if reported is None or reported.origin == BUILT_IN else (reported.value,)


def _tokens(subject: PoolContext) -> tuple[int, ...]:
    known = _live(subject, MAX_BATCHED_TOKENS) if generates_text(subject) else ()
    return tuple(map(int, known))


def objective(args: argparse.Namespace, subject: PoolContext) -> TuningObjective:
    """Return the objective as requested, else that of the pool or of its policies.

    Raises:
        NotEnoughData: there is none, or one of text for a pool that generates none.
    """
    generates = generates_text(subject)
    text = ((ObjectiveMetric.TIME_TO_FIRST_TOKEN, args.first_token), (ObjectiveMetric.TIME_PER_OUTPUT_TOKEN, args.output_token))  # fmt: skip
    offered = ((ObjectiveMetric.REQUEST_LATENCY, args.objective), *text)
    given = [(metric, target) for metric, target in offered if target is not None]
    if given and not generates and any(target is not None for _, target in text):
        raise NotEnoughData("--first-token and --output-token are for pools of task TextGeneration")
    if given:
        limits = [LatencyLimit(metric, target.milliseconds) for metric, target in given]
        return _objective(limits, max(float(target.percent) for _, target in given))
    known = {
        metric: target
        for metric, target in objectives(subject).items()
        if generates or metric is ObjectiveMetric.REQUEST_LATENCY
    }
    if not known:
        raise NotEnoughData(_no_objective(subject, generates=generates))
    limits = [LatencyLimit(metric, target.milliseconds) for metric, target in known.items()]
    return _objective(limits, max(float(target.percent) for target in known.values()))


def generates_text(subject: PoolContext) -> bool:
    """Return whether the pool generates text."""
    return subject.pool.spec.model.task is Task.TEXT_GENERATION


def _objective(limits: Sequence[LatencyLimit], percent: float) -> TuningObjective:
    first, *more = limits
    return TuningObjective(first.milliseconds, percent, first.metric, tuple(more))


def _no_objective(subject: PoolContext, *, generates: bool) -> str:
    name = f"{subject.pool.namespace}/{subject.pool.name}"
    if generates:
        return (
            f"pool {name} has no objective: set TimeToFirstToken or TimePerOutputToken in spec.objectives, or give"
            " --first-token or --output-token, e.g. --first-token 500@99 --output-token 50"
        )
    return (
        f"pool {name} has no objective of metric RequestLatency:"
        " set one in spec.objectives, or give --objective, e.g. --objective 500@99"
    )


def stored(
    cluster: ClusterClient, namespace: str, pool: str
) -> tuple[KeptTrials, LoadShape | None]:
    """Return the trials and the load of an earlier tuner; none if there was none. Raises `PluginError`."""
    config_map = own(cluster.find(config_map_path(namespace, pool))) or {"metadata": {}}
    data = config_map.get("data") or {}
    annotations = config_map["metadata"].get("annotations") or {}
    try:
        kept = KeptTrials(StudyRecord.read(data.get(RECORD_KEY, "")), annotations.get(ANNOTATION_JOB, ""))  # fmt: skip
    except ValueError:
        kept = KeptTrials(StudyRecord())
    return kept, LoadShape.read(data.get(LOAD_KEY, ""))


def load(
    args: argparse.Namespace,
    cluster: ClusterClient,
    subject: PoolContext,
    earlier: LoadShape | None,
) -> LoadShape:
    """Return the load: as requested, that of the trials so far, of Prometheus or of the status; else it is assumed.

    A pool that was created again under its name may have another task than the trials.
    """
    if earlier is not None and earlier.generates_text != generates_text(subject):
        earlier = None
    if generates_text(subject):
        return _text_load(args, cluster, subject, earlier)
    if args.rows is not None or args.rate is not None:
        return LoadShape(args.rows or (1,), args.rate, "as requested")
    status = subject.pool.status
    return (
        earlier
        or _of_prometheus(args, cluster, subject)
        or load_shape.of_status(status.scaling, status.ready_replicas or 0)
        or LoadShape()
    )


def _text_load(
    args: argparse.Namespace,
    cluster: ClusterClient,
    subject: PoolContext,
    earlier: LoadShape | None,
) -> LoadShape:
    if args.prompt_tokens or args.output_tokens or args.rate is not None:
        lengths = (args.prompt_tokens or PROMPT_TOKENS, args.output_tokens or OUTPUT_TOKENS)
        return LoadShape((1,), args.rate, "as requested", *lengths)
    assumed = LoadShape((1,), None, load_shape.ASSUMED_TEXT, PROMPT_TOKENS, OUTPUT_TOKENS)
    return earlier or _of_prometheus(args, cluster, subject) or assumed


def _of_prometheus(
    args: argparse.Namespace, cluster: ClusterClient, subject: PoolContext
) -> LoadShape | None:
    url, pool = prometheus.url_of(subject, args.prometheus), subject.pool
    if url is None:
        return None
    text = generates_text(subject)
    queries = load_shape.text_queries if text else load_shape.queries
    try:
        values = [
            history.value(cluster.prometheus(url, "/api/v1/query", {"query": query}))
            for query in queries(pool.namespace, pool.name, args.last).values()
        ]
    except PluginError as error:
        if args.prometheus is not None:
            raise
        sys.stderr.write(f"{error}\n")
        return None
    if text:
        prompts, outputs, rate = values
        return load_shape.of_text_history(prompts, outputs, rate, args.last)
    rows, rate = values
    return load_shape.of_history(rows, rate, args.last)
