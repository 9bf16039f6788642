"""What a tuner of the pool needs: an objective, a load like the pool's own, and the trials of an earlier one. Does I/O."""

import argparse
import sys

from penstock_kubectl import history, prometheus
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.errors import NotEnoughData, PluginError
from penstock_kubectl.pool_context import PoolContext
from penstock_kubectl.tune import load_shape
from penstock_kubectl.tune.job import LOAD_KEY, RECORD_KEY, TuneOptions, job_name
from penstock_kubectl.tune.load_shape import LoadShape
from penstock_operator.decide.spec.effective import effective
from penstock_tuner.record import StudyRecord
from penstock_tuner.settings import TuningObjective


def options(args: argparse.Namespace, subject: PoolContext) -> TuneOptions:
    """Return what is searched. Raises `NotEnoughData` without an objective."""
    return TuneOptions(
        objective=objective(args, subject),
        minutes=args.minutes,
        clients=args.clients,
        backends=args.backends,
        threads=args.threads,
        disciplines=args.disciplines,
        dtypes=args.dtypes,
    )


def objective(args: argparse.Namespace, subject: PoolContext) -> TuningObjective:
    """Return the objective as requested, else that of the pool or of its policies.

    Raises:
        NotEnoughData: there is none.
    """
    if args.objective is not None:
        return TuningObjective(args.objective.milliseconds, float(args.objective.percent))
    law = effective(subject.pool, subject.namespace_labels, subject.policies).law
    if law.objective_milliseconds is None:
        raise NotEnoughData(
            f"pool {subject.pool.namespace}/{subject.pool.name} has no objective of metric RequestLatency:"
            " set one in spec.objectives, or give --objective, e.g. --objective 500@99"
        )
    return TuningObjective(law.objective_milliseconds, round(100 * (1 - law.late.request), 6))


def stored(
    cluster: ClusterClient, namespace: str, pool: str
) -> tuple[StudyRecord, LoadShape | None]:
    """Return the trials and the load of an earlier tuner; none if there was none."""
    config_map = cluster.config_map(namespace, job_name(pool))
    data = {} if config_map is None else config_map.get("data") or {}
    try:
        record = StudyRecord.read(data.get(RECORD_KEY, ""))
    except ValueError:
        record = StudyRecord()
    return record, LoadShape.read(data.get(LOAD_KEY, ""))


def load(
    args: argparse.Namespace,
    cluster: ClusterClient,
    subject: PoolContext,
    earlier: LoadShape | None,
) -> LoadShape:
    """Return the load: as requested, that of the trials so far, of Prometheus or of the status; else it is assumed."""
    if args.rows is not None or args.rate is not None:
        return LoadShape(args.rows or (1,), args.rate, "as requested")
    status = subject.pool.status
    return (
        earlier
        or _of_prometheus(args, cluster, subject)
        or load_shape.of_status(status.scaling, status.ready_replicas or 0)
        or LoadShape()
    )


def _of_prometheus(
    args: argparse.Namespace, cluster: ClusterClient, subject: PoolContext
) -> LoadShape | None:
    url, pool = prometheus.url_of(subject, args.prometheus), subject.pool
    if url is None:
        return None
    try:
        rows, rate = (
            history.value(cluster.prometheus(url, "/api/v1/query", {"query": query}))
            for query in load_shape.queries(pool.namespace, pool.name, args.last).values()
        )
    except PluginError as error:
        if args.prometheus is not None:
            raise
        sys.stderr.write(f"{error}\n")
        return None
    return load_shape.of_history(rows, rate, args.last)
