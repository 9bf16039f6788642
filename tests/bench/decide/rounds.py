"""One tick of many pools against a Prometheus on loopback that counts the queries."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from aiohttp import web

from penstock_api import names
from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import new_session
from penstock_operator.observe.signals.promql import QUERY, QUERY_DURATIONS, QUERY_PODS
from penstock_operator.observe.signals.samples import DURATIONS, SAMPLE_METRICS
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import SignalSource
from penstock_operator.reconciler.workqueue import MAX_BATCH
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.counters import SECONDS
from tests.bench.decide.fleet import PODS
from tests.unit.operator.observe.signals.exporter import pod_object, serving

PORT = 19091
SCRAPES = 3
WORK = ("interactive", "batch")
BUCKETS = tuple({"le": bound} for bound in (*map(repr, SECONDS), "+Inf"))
LABELS: dict[str, tuple[dict[str, str], ...]] = {
    names.METRIC_POD_INFO: ({"uid": "UID"},),
    names.METRIC_REQUESTS: tuple(
        {"outcome": end.value, "work": work} for end in RequestOutcome for work in WORK
    ),
    names.METRIC_REQUESTS_REFUSED: tuple(
        {"reason": reason, "work": "interactive"} for reason in ("QueueFull", "BadInput")
    ),
    names.METRIC_GPU_UTILIZATION: ({"source": "NVML"},),
    names.METRIC_TOKENS: ({"phase": "prefill"}, {"phase": "decode"}),
    names.METRIC_GENERATION_CURVE: tuple(
        {"epoch": epoch, "term": term} for epoch in "01" for term in names.GENERATION_TERMS
    ),
    **{metric: BUCKETS for metric in (*SAMPLE_METRICS, *DURATIONS) if metric.endswith("_bucket")},
}
"""Labels of the metrics, in addition to those of their target."""
PART = re.compile(r',instance=~"([^"]*)"')


async def measure_queries(pools: int) -> dict[str, float]:
    """Return the number of queries of all passes of one tick, and their cost.

    Pods have every wanted series, like pods that generate text. CPU time is of client and server.
    """
    queries: Counter[str] = Counter()
    answered: list[int] = []
    now, addresses = time.time(), [_address(index) for index in range(pools * PODS)]
    texts = {
        QUERY: series_of_pod(now, SAMPLE_METRICS, SCRAPES),
        QUERY_DURATIONS: series_of_pod(now, DURATIONS, SCRAPES),
    }

    async def handle(request: web.Request) -> web.Response:
        query = str((await request.post())["query"])
        kind, part = PART.sub("", query), PART.search(query)
        queries[kind] += 1
        if kind == QUERY_PODS:
            result = [{"metric": {}, "value": [now, str(len(addresses))]}]
            return web.json_response({"status": "success", "data": {"result": result}})
        body = _matrix(texts.get(kind, ""), addresses, part and re.compile(part[1]))
        answered.append(len(body))
        return web.Response(body=body, content_type="application/json")

    async with (
        serving(web.post("/api/v1/query", handle), port=PORT) as ip,
        new_session() as session,
    ):
        url, rounds = f"http://{ip}:{PORT}", SharedQueries()
        batches = [
            [_pool(number, url) for number in range(first, min(first + MAX_BATCH, pools))]
            for first in range(0, pools, MAX_BATCH)
        ]
        began, worked = time.perf_counter(), time.process_time()
        results = await asyncio.gather(
            *(observe_signals(session, batch, now, rounds) for batch in batches)
        )
        took, busy = time.perf_counter() - began, time.process_time() - worked
    seen = [signals for by_pool in results for signals in by_pool.values()]
    assert all(signals.source is SignalSource.PROMETHEUS for signals in seen), seen[0].problem
    assert all(len(signals.samples) == PODS * SCRAPES for signals in seen)
    return {
        "pods": len(addresses),
        "passes": len(batches),
        "rounds": queries[QUERY_PODS],
        "questions": queries.total(),
        "megabytes": sum(answered) / 1e6,
        "largest_megabytes": max(answered) / 1e6,
        "seconds": took,
        "cpu_seconds": busy,
    }


def _pool(number: int, url: str) -> PoolPods:
    pods = tuple(
        pod_object(f"pod-{index}", _address(index))
        for index in range(number * PODS, (number + 1) * PODS)
    )
    return PoolPods(f"pool-{number}", "team", pods, MetricsServer(url))


def _address(number: int) -> str:
    return f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


def _matrix(text: str, addresses: Sequence[str], part: re.Pattern[str] | None) -> bytes:
    """Return an answer; `text` is the series of one pod."""
    result = (
        text.replace("UID", f"pod-{number}").replace("ADDRESS", address)
        for number, address in enumerate(addresses)
        if text and (part is None or part.fullmatch(f"{address}:8001"))
    )
    whole = ",".join(result)
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{whole}]}}}}'.encode()


def series_of_pod(now: float, metrics: Iterable[str], scrapes: int) -> str:
    """Return the series of a pod that generates text, in the format of an answer."""
    base = {"namespace": "team", "pool": "chat", "instance": "ADDRESS:8001", "job": "pools"}
    values = [[now - 11 + 5 * index, str(100 * index)] for index in range(scrapes)]
    return ",".join(
        json.dumps({"metric": {**base, "__name__": name, **labels}, "values": values})
        for name in metrics
        for labels in LABELS.get(name, ({},))
    )
