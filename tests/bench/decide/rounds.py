"""One tick of many pools against a Prometheus on loopback that counts the questions."""

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
from penstock_operator.observe.signals.samples import DURATIONS, WANTED
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import SignalSource
from penstock_operator.workqueue import MAX_BATCH
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.histogram import SECONDS
from tests.bench.decide.fleet import PODS
from tests.unit.operator.observe.signals.exporter import pod_object, serving

PORT = 19091
SCRAPES = 3
BUCKETS = tuple({"le": one} for one in (*map(repr, SECONDS), "+Inf"))
LABELS: dict[str, tuple[dict[str, str], ...]] = {
    names.METRIC_POD_INFO: ({"uid": "UID"},),
    names.METRIC_REQUESTS: tuple({"outcome": one.value} for one in RequestOutcome),
    names.METRIC_REQUESTS_REFUSED: ({"reason": "QueueFull"}, {"reason": "BadInput"}),
    names.METRIC_GPU_UTILIZATION: ({"source": "NVML"},),
    names.METRIC_TOKENS: ({"phase": "prefill"}, {"phase": "decode"}),
    names.METRIC_GENERATION_CURVE: tuple(
        {"epoch": epoch, "term": term} for epoch in "01" for term in names.GENERATION_TERMS
    ),
    **{one: BUCKETS for one in (*WANTED, *DURATIONS) if one.endswith("_bucket")},
}
"""Of the metrics that have any beside those of their target."""
PART = re.compile(r',instance=~"([^"]*)"')


async def questions_of_a_tick(pools: int) -> dict[str, float]:
    """Return how often a Prometheus was asked by all passes of one tick, and what it took.

    Pods tell every series that is wanted, as those do that generate text. CPU is of both sides.
    """
    asked: Counter[str] = Counter()
    answered: list[int] = []
    now, addresses = time.time(), [_address(one) for one in range(pools * PODS)]
    texts = {
        QUERY: told_of_one_pod(now, WANTED, SCRAPES),
        QUERY_DURATIONS: told_of_one_pod(now, DURATIONS, SCRAPES),
    }

    async def handle(request: web.Request) -> web.Response:
        query = str((await request.post())["query"])
        kind, part = PART.sub("", query), PART.search(query)
        asked[kind] += 1
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
            [_pool(one, url) for one in range(first, min(first + MAX_BATCH, pools))]
            for first in range(0, pools, MAX_BATCH)
        ]
        began, worked = time.perf_counter(), time.process_time()
        heard = await asyncio.gather(
            *(observe_signals(session, batch, now, rounds) for batch in batches)
        )
        took, busy = time.perf_counter() - began, time.process_time() - worked
    seen = [one for found in heard for one in found.values()]
    assert all(one.source is SignalSource.PROMETHEUS for one in seen), seen[0].problem
    assert all(len(one.samples) == PODS * SCRAPES for one in seen)
    return {
        "pods": len(addresses),
        "passes": len(batches),
        "rounds": asked[QUERY_PODS],
        "questions": asked.total(),
        "megabytes": sum(answered) / 1e6,
        "largest_megabytes": max(answered) / 1e6,
        "seconds": took,
        "cpu_seconds": busy,
    }


def _pool(number: int, url: str) -> PoolPods:
    pods = tuple(
        pod_object(f"pod-{one}", _address(one)) for one in range(number * PODS, (number + 1) * PODS)
    )
    return PoolPods(f"pool-{number}", "team", pods, MetricsServer(url))


def _address(number: int) -> str:
    return f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


def _matrix(text: str, addresses: Sequence[str], part: re.Pattern[str] | None) -> bytes:
    """Return an answer: `text` is what one pod tells."""
    result = (
        text.replace("UID", f"pod-{number}").replace("ADDRESS", address)
        for number, address in enumerate(addresses)
        if text and (part is None or part.fullmatch(f"{address}:8001"))
    )
    whole = ",".join(result)
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{whole}]}}}}'.encode()


def told_of_one_pod(now: float, metrics: Iterable[str], scrapes: int) -> str:
    """Return the series of a pod that generates text, as an answer has them."""
    base = {"namespace": "team", "pool": "chat", "instance": "ADDRESS:8001", "job": "pools"}
    values = [[now - 11 + 5 * index, str(100 * index)] for index in range(scrapes)]
    return ",".join(
        json.dumps({"metric": {**base, "__name__": name, **labels}, "values": values})
        for name in metrics
        for labels in LABELS.get(name, ({},))
    )
