"""The controller's metrics while Envoy answers, and while it does not."""

import time
from typing import Any, cast

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from penstock_gateway.errors import EnvoyUnavailable
from penstock_gateway.gateway import Gateway
from penstock_gateway.http import StatusServer
from penstock_gateway.signals import ListenerSignals
from penstock_gateway.snapshot import Snapshot
from tests.unit.gateway.values import SETTINGS, route

REQUESTS = "penstock_gateway_requests_total"


class CountingEnvoy:
    """The admin interface of an Envoy that counted 7 requests, while it answers."""

    answers = True

    async def signals(self) -> ListenerSignals:
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
