"""The controller's metrics while Envoy answers, and while it does not, and what their size costs its event loop."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.errors import EnvoyUnavailable
from penstock_gateway.gateway import Gateway
from penstock_gateway.http import StatusServer
from penstock_gateway.resources.stats import MILLISECONDS
from penstock_gateway.signals import ListenerSignals
from penstock_gateway.snapshot import Snapshot
from tests.unit.gateway.values import SETTINGS, route

REQUESTS = "penstock_gateway_requests_total"


class CountingEnvoy:
    """The admin interface of an Envoy that counted 7 requests, while it answers."""

    answers = True

    async def signals(self, _names: str) -> ListenerSignals:
        if not self.answers:
            raise EnvoyUnavailable("GET /stats/prometheus: TimeoutError")
        return ListenerSignals(offered={"demo": 7})


@pytest.fixture
def server() -> StatusServer:
    gateway = Gateway(SETTINGS, cast("Any", None), cast("Any", None), time.monotonic)
    gateway.snapshot = Snapshot({"demo": route("demo"), "quiet": route("quiet", 10002)})
    return StatusServer(gateway, cast("Any", CountingEnvoy()))


async def scrape(server: StatusServer) -> dict[str, dict[str, float]]:
    """Return the values of every metric by pool."""
    answer = await server._metrics(cast("web.Request", None))
    assert answer.text is not None
    values: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            values.setdefault(sample.name, {})[sample.labels.get("pool", "")] = sample.value
    return values


async def test_what_envoy_counts_is_absent_while_it_does_not_answer_and_never_zero(
    server: StatusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await scrape(server)
    assert first[REQUESTS] == {"demo": 7, "quiet": 0}
    monkeypatch.setattr(CountingEnvoy, "answers", False)
    missed = await scrape(server)
    assert missed.keys() == first.keys() - {REQUESTS, "penstock_gateway_requests_in_flight"}
    assert missed["penstock_gateway_endpoints"] == {"demo": 1, "quiet": 1}
    monkeypatch.setattr(CountingEnvoy, "answers", True)
    assert (await scrape(server))[REQUESTS] == first[REQUESTS]


def envoy_metrics(pools: int, tenants: int) -> str:
    """Return the metrics of an Envoy that answered three requests of each tenant of each pool."""
    lines = []
    for label in (f'pool="pool-{number}"' for number in range(pools)):
        lines.append(f"envoy_penstock_gateway_requests{{{label}}} 1000")
        active = f'envoy_http_conn_manager_prefix="pool/",{label}'
        lines.append(f"envoy_http_downstream_rq_active{{{active}}} 2")
    for name in ("request_milliseconds", "first_byte_milliseconds"):
        lines.append(f"# TYPE envoy_penstock_gateway_{name} histogram")
        for pool in range(pools):
            for tenant in ("-", *(f"team-{number}" for number in range(1, tenants))):
                owner = f'pool="pool-{pool}",tenant="{tenant}"'
                for bound in (*MILLISECONDS, "+Inf"):
                    bucket = f"envoy_penstock_gateway_{name}_bucket"
                    lines.append(f'{bucket}{{{owner},le="{bound}"}} 3')
                lines.append(f"envoy_penstock_gateway_{name}_sum{{{owner}}} 2.5")
                lines.append(f"envoy_penstock_gateway_{name}_count{{{owner}}} 3")
    lines.append("# TYPE envoy_penstock_gateway_answers counter")
    owner = 'code="200",pool="pool-0",tenant="-"'
    lines.append(f"envoy_penstock_gateway_answers{{{owner}}} 3")
    return "\n".join(lines) + "\n"


class BusyEnvoy:
    """The admin interface of an Envoy with many tenants, and the filters of the requests that it received."""

    def __init__(self) -> None:
        self.filters: list[str] = []
        self._metrics = envoy_metrics(10, 20)

    async def answer(self, request: web.Request) -> web.Response:
        self.filters.append(request.query["filter"])
        return web.Response(text=self._metrics)


@pytest.fixture
async def busy(server: StatusServer, tmp_path: Path) -> AsyncIterator[BusyEnvoy]:
    """Put a busy Envoy behind the server."""
    envoy, app = BusyEnvoy(), web.Application()
    app.router.add_get("/stats/prometheus", envoy.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "admin.sock")).start()
    server._admin = EnvoyAdmin(tmp_path / "admin.sock")
    yield envoy
    await server._admin.close()
    await runner.cleanup()


async def longest_turn(stop: asyncio.Event) -> float:
    """Return the CPU time of the longest turn of the event loop."""
    longest, begin = 0.0, time.thread_time()
    while not stop.is_set():
        await asyncio.sleep(0)
        begin, former = time.thread_time(), begin
        longest = max(longest, begin - former)
    return longest


async def test_no_reader_of_the_metrics_keeps_the_event_loop_from_other_requests(
    server: StatusServer, busy: BusyEnvoy
) -> None:
    stop = asyncio.Event()
    turns = asyncio.create_task(longest_turn(stop))
    request = cast("web.Request", None)
    await asyncio.gather(
        server._metrics(request), server._metrics(request), server._status(request)
    )
    stop.set()
    assert await turns < 0.1
    assert len(busy.filters) == 2  # the scrapes share one


async def test_the_status_reads_no_histogram(server: StatusServer, busy: BusyEnvoy) -> None:
    await server._status(cast("web.Request", None))
    (pattern,) = busy.filters
    assert re.search(pattern, "penstock_gateway.requests.pool.demo")
    assert re.search(pattern, "http.pool/demo.downstream_rq_active")
    assert not re.search(pattern, "penstock_gateway.request_milliseconds.pool.demo.tenant.-")
    assert not re.search(pattern, "penstock_gateway.answers.pool.demo.tenant.-.code.200")


async def test_durations_are_in_seconds_and_no_tenant_is_an_empty_label(
    server: StatusServer, busy: BusyEnvoy
) -> None:
    text = (await server._metrics(cast("web.Request", None))).text
    assert text is not None
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (answers,) = families["penstock_gateway_answers"].samples
    assert answers.labels == {"pool": "pool-0", "tenant": "", "code": "200"}
    durations = families["penstock_gateway_request_seconds"]
    assert (durations.type, len(durations.samples)) == ("histogram", 10 * 20 * 34)
    first = [sample for sample in durations.samples if sample.labels["tenant"] == ""][:34]
    assert first[1].labels == {"pool": "pool-0", "tenant": "", "le": "0.0025"}
    assert first[31].labels["le"] == "+Inf"
    assert [sample.value for sample in first[31:]] == [3, 0.0025, 3]
    assert len(busy.filters) == 1
