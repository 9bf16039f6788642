"""Asking a pool's Prometheus for its past. An edge."""

from collections.abc import Mapping

from penstock_api.limits import CurveSums
from penstock_kubectl import history
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.history import History, TimeRange
from penstock_kubectl.pool_context import PoolContext
from penstock_operator.decide.spec.prometheus import metrics_server

WHERE = "no Prometheus is known for this pool: say --prometheus URL to see its history"


def url_of(subject: PoolContext, asked: str | None) -> str | None:
    """Return where the pool's past is: as asked, else as its policies say, else where its signals last came from."""
    if asked:
        return asked
    server = metrics_server(subject.pool, subject.namespace_labels, subject.policies, None)
    if server is not None:
        return server.url
    seen = subject.pool.status.scaling
    return None if seen is None else seen.prometheus_url


def read(cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange) -> History:
    """Return the pool's past. Raises `Unreachable`."""
    pool = subject.pool
    asked = history.questions(pool.namespace, pool.name, over)
    bounds = {"start": f"{over.start:.3f}", "end": f"{over.end:.3f}", "step": f"{over.step:.0f}"}
    return History(
        over,
        {
            name: history.series(_range(cluster, url, query, bounds), over)
            for name, query in asked.items()
        },
    )


def curve_sums(
    cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange
) -> CurveSums | None:
    """Return the growth of the service-curve sums over the span; None where any is not known."""
    asked = history.curve_questions(subject.pool.namespace, subject.pool.name, over)
    answers = {
        name: history.value(
            cluster.prometheus(url, "/api/v1/query", {"query": query, "time": f"{over.end:.3f}"})
        )
        for name, query in asked.items()
    }
    known = {name: found for name, found in answers.items() if found is not None}
    return CurveSums.model_validate(known) if len(known) == len(answers) else None


def _range(
    cluster: ClusterClient, url: str, query: str, bounds: Mapping[str, str]
) -> Mapping[str, object]:
    return cluster.prometheus(url, "/api/v1/query_range", {"query": query, **bounds})
