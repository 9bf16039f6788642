"""One tick of many pools against a Prometheus on loopback that counts the questions."""

import asyncio
import json
import time
from collections import Counter

from aiohttp import web

from penstock_operator.calls import new_session
from penstock_operator.decide.metrics_server import MetricsServer
from penstock_operator.due import BATCH
from penstock_operator.observe.dcgm import QUERY as QUERY_DEVICES
from penstock_operator.observe.exposition import DURATIONS
from penstock_operator.observe.prometheus import QUERY, QUERY_DURATIONS
from penstock_operator.observe.rounds import Rounds
from penstock_operator.observe.signals import PoolPods, observe_signals
from penstock_operator.observed import SignalSource
from tests.unit.signals.exporter import pod_object, serving

PORT = 19091
SCRAPES = 3
GAUGES = (
    "penstock_requests_waiting", "penstock_requests_running", "penstock_requests_received_total",
    "penstock_rows_received_total", "penstock_batch_cap", "penstock_batch_cap_bound",
    "penstock_limits_generation", "penstock_out_of_memory_splits_total", "penstock_curve_batches_total",
    "penstock_curve_cost_units_total", "penstock_curve_cost_units_squared_total",
    "penstock_curve_seconds_total", "penstock_curve_cost_unit_seconds_total",
    "penstock_curve_seconds_squared_total", "penstock_pod_info",
)  # fmt: skip
BATCHES = "penstock_batch_duration_seconds_bucket"
BUCKETS = (*({"le": f"{0.001 * 1.4**step:.4f}"} for step in range(30)), {"le": "+Inf"})


async def questions_of_a_tick(pools: int) -> dict[str, float]:
    """Return how often a Prometheus was asked by all passes of one tick, and what it took; one pod a pool."""
    asked: Counter[str] = Counter()
    now = time.time()
    answers = {
        QUERY: json.dumps(_matrix(pools, now, (*GAUGES, BATCHES))).encode(),
        QUERY_DEVICES: json.dumps({"status": "success", "data": {"result": []}}).encode(),
        QUERY_DURATIONS: json.dumps(_matrix(pools, now, DURATIONS[:1])).encode(),
    }

    async def handle(request: web.Request) -> web.Response:
        form = await request.post()
        clock = form["query"] == "time()"
        asked[str(form["query"])] += 1
        if clock:
            data = {"resultType": "scalar", "result": [now, f"{now:.3f}"]}
            return web.json_response({"status": "success", "data": data})
        return web.Response(body=answers[str(form["query"])], content_type="application/json")

    async with (
        serving(web.post("/api/v1/query", handle), port=PORT) as ip,
        new_session() as session,
    ):
        url, rounds = f"http://{ip}:{PORT}", Rounds()
        batches = [
            [_pool(one, url) for one in range(first, min(first + BATCH, pools))]
            for first in range(0, pools, BATCH)
        ]
        began = time.perf_counter()
        heard = await asyncio.gather(
            *(observe_signals(session, batch, now, rounds) for batch in batches)
        )
        took = time.perf_counter() - began
    seen = [one for found in heard for one in found.values()]
    assert all(one.source is SignalSource.PROMETHEUS for one in seen), seen[0].problem
    assert all(len(one.samples) == SCRAPES for one in seen)
    return {
        "passes": len(batches),
        "rounds": asked[QUERY],
        "questions": asked.total(),
        "megabytes": sum(map(len, answers.values())) / 1e6,
        "seconds": took,
    }


def _pool(number: int, url: str) -> PoolPods:
    pod = pod_object(f"pod-{number}", _address(number))
    return PoolPods(f"pool-{number}", "team", (pod,), MetricsServer(url))


def _address(number: int) -> str:
    return f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


def _matrix(pools: int, now: float, metrics: tuple[str, ...]) -> dict[str, object]:
    result = [one for number in range(pools) for one in _series(number, now, metrics)]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def _series(number: int, now: float, metrics: tuple[str, ...]) -> list[dict[str, object]]:
    base = {"namespace": "team", "instance": f"{_address(number)}:8001", "job": "pools"}
    values = [[now - 11 + 5 * index, str(100 * index)] for index in range(SCRAPES)]
    names = [
        {"__name__": name, **more}
        for name in metrics
        for more in (BUCKETS if name.endswith("_bucket") else ({"uid": f"pod-{number}"},))
    ]
    return [{"metric": {**base, **name}, "values": values} for name in names]
