"""What a real Envoy counts at a pool's listener: arrivals once each, answers and durations by tenant."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway.stack import Stack, kill
from tests.unit.gateway.envoy.conftest import RunningGateway


async def value(stack: Stack, name: str, **labels: str) -> float:
    """Return a metric of the controller; 0 if it is absent."""
    for family in text_string_to_metric_families(await stack.metrics()):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return 0.0


async def test_a_request_counts_once_on_arrival_and_a_probe_not_at_all(
    gateway: RunningGateway,
) -> None:
    async with gateway(pods=2) as stack:
        await asyncio.gather(*(stack.client.get(stack.url("/v1/models")) for _ in range(3)))
        slow = asyncio.create_task(stack.client.post(stack.url("/infer?ms=2000")))
        status = await stack.until_status(lambda status: status["pools"]["demo"]["offered"] == 1)
        assert status["pools"]["demo"]["inFlight"] == 1
        assert await value(stack, "penstock_gateway_answers_total", pool="demo") == 0
        by_pod = [await stack.pod_reply(name, "/seen") for name in sorted(stack.pods)]
        busy = next(
            name for name, seen in zip(sorted(stack.pods), by_pod, strict=True) if "/infer" in seen
        )
        await kill(stack.pods[busy])  # sent again to the other pod
        async with await slow as answer:
            assert answer.status == 200
        async with stack.client.post(stack.url("/status/429")) as answer:
            assert answer.status == 429
        status = await stack.until_status(lambda status: status["pools"]["demo"]["inFlight"] == 0)
        assert status["pools"]["demo"]["offered"] == 2
        assert await value(stack, "penstock_gateway_requests_total", pool="demo") == 2
        assert await value(stack, "penstock_gateway_answers_total", pool="demo", code="200") == 1
        assert await value(stack, "penstock_gateway_answers_total", pool="demo", code="429") == 1
        name = "penstock_gateway_request_seconds"
        while await value(stack, f"{name}_count", pool="demo", tenant="") < 2:  # noqa: ASYNC110  Envoy merges every 5 s
            await asyncio.sleep(0.1)
        assert await value(stack, f"{name}_bucket", pool="demo", tenant="", le="1.0") == 1
        assert 2 <= await value(stack, f"{name}_sum", pool="demo", tenant="") < 60


async def test_answers_count_for_the_tenant_that_the_pod_names(gateway: RunningGateway) -> None:
    async with gateway(pods=1) as stack:
        for tenant in ("a", "a", "b"):
            async with stack.client.post(stack.url(f"/infer?tenant={tenant}")) as answer:
                assert answer.status == 200
        for tenant, count in (("a", 2), ("b", 1)):
            name = "penstock_gateway_first_byte_seconds_count"
            while await value(stack, name, pool="demo", tenant=tenant) < count:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.1)
            name = "penstock_gateway_answers_total"
            assert await value(stack, name, pool="demo", tenant=tenant, code="200") == count


async def test_held_requests_are_offered(gateway: RunningGateway) -> None:
    async with gateway(pods=0) as stack:
        async with stack.client.post(stack.url("/infer")) as answer:
            assert answer.status == 503
        status = await stack.until_status(lambda status: status["pools"]["demo"]["offered"] == 1)
        assert status["pools"]["demo"]["held"] is None


async def test_without_envoy_there_are_no_signals_and_the_rest_of_the_status_stays(
    gateway: RunningGateway,
) -> None:
    async with gateway(pods=1) as stack:
        await kill(stack.envoy)
        status = await stack.until_status(lambda status: not status["ready"])
        assert status["pools"]["demo"]["offered"] is None
        assert await value(stack, "penstock_gateway_endpoints", pool="demo") == 1
