"""Queries of a pool's history to Prometheus. Does I/O."""

from collections.abc import Mapping

from penstock_api.pod_contract import CurveSums
from penstock_kubectl import history
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.history import History, TimeRange
from penstock_kubectl.pool_context import PoolContext, pool_names
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import (
    StepSums,
    parse_steps,
)
from penstock_operator.decide.spec.prometheus import metrics_server

WHERE = (
    "the operator queries no Prometheus for this pool (status.prometheusUrl is absent): set --prometheus URL to see"
    " its history"
)


def url_of(subject: PoolContext, requested: str | None) -> str | None:
    """Return the URL: as requested, else that of the operator; of an earlier operator what policies and samples name."""
    if requested:
        return requested
    if subject.pool.status.prometheus_url is not None:
        return subject.pool.status.prometheus_url
    server = metrics_server(subject.pool, subject.namespace_labels, subject.policies, None)
    if server is not None:
        return server.url
    status = subject.pool.status.scaling
    return None if status is None else status.prometheus_url


def read(cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange) -> History:
    """Return the history of the pool. Raises `Unreachable`."""
    queries = history.queries(subject.pool.namespace, pool_names(subject), over)
    bounds = {"start": f"{over.start:.3f}", "end": f"{over.end:.3f}", "step": f"{over.step:.0f}"}
    return History(
        over,
        {
            name: history.series(_range(cluster, url, query, bounds), over)
            for name, query in queries.items()
        },
    )


def curve_sums(
    cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange
) -> CurveSums | None:
    """Return the increase of the service-curve sums over the range; None if any is unknown."""
    queries = history.curve_queries(subject.pool.namespace, subject.pool.name, over)
    known = _values(cluster, url, queries, over)
    return None if known is None else CurveSums.model_validate(known)


def step_sums(
    cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange
) -> StepSums | None:
    """Return the increase of the sums over steps of generation over the range; None if any is unknown."""
    queries = history.step_queries(subject.pool.namespace, subject.pool.name, over)
    known = _values(cluster, url, queries, over)
    return None if known is None else parse_steps(list(known.values()))


def token_means(
    cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange
) -> tuple[float, float] | None:
    """Return the mean tokens of prompts and of answers over the range; None if either is unknown or zero."""
    queries = history.token_queries(
        subject.pool.namespace, subject.pool.name, over.end - over.start
    )
    known = _values(cluster, url, queries, over)
    if known is None or not all(known.values()):
        return None
    return known["prompts"], known["outputs"]


def _values(
    cluster: ClusterClient, url: str, queries: Mapping[str, str], over: TimeRange
) -> dict[str, float] | None:
    """Return the results of instant queries at the end of the range; None if any is unknown."""
    answers = {
        name: history.value(
            cluster.prometheus(url, "/api/v1/query", {"query": query, "time": f"{over.end:.3f}"})
        )
        for name, query in queries.items()
    }
    known = {name: answer for name, answer in answers.items() if answer is not None}
    return known if len(known) == len(answers) else None


def _range(
    cluster: ClusterClient, url: str, query: str, bounds: Mapping[str, str]
) -> Mapping[str, object]:
    return cluster.prometheus(url, "/api/v1/query_range", {"query": query, **bounds})
