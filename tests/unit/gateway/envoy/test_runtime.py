"""Pods that are the runtime itself, on the emulated accelerator, behind a real Envoy."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import aiohttp

from penstock_api import names
from tests.support.gateway.api_server import pod
from tests.support.gateway.stack import Stack
from tests.support.runtime.process import RuntimeProcess, start
from tests.unit.gateway.envoy.conftest import RunningGateway

INFER = "/v2/models/demo/infer"
BODY = {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 8], "data": list(range(8))}]}
ANSWER = [2 * number + 1 for number in range(8)]
CLIENTS = 6


async def start_runtimes(stack: Stack, folder: Path, count: int) -> list[RuntimeProcess]:
    """Start pods on ports 8000 of their own addresses, and publish them once they are ready."""
    pods = []
    for number in range(count):
        own = folder / str(number)
        own.mkdir()
        pods.append(
            start(
                own,
                {"a_milliseconds": "50", "c_milliseconds": "5"},
                PENSTOCK_HOST=stack.address(f"pod-{number}"),
                PENSTOCK_CLIENT_PORT=str(names.CLIENT_PORT),
                PENSTOCK_CLUSTER_PORT=str(names.CLUSTER_PORT),
                PENSTOCK_POD_NAME=f"pod-{number}",
            )
        )
    for number in range(count):
        address = stack.address(f"pod-{number}")
        while not await is_ready(stack, address):  # noqa: ASYNC110  another process
            await asyncio.sleep(0.1)
        await stack.api.put("pods", pod(f"pod-{number}", "demo", address))
    return pods


async def is_ready(stack: Stack, address: str) -> bool:
    """Return whether the runtime at an address is ready for the kubelet."""
    url = f"http://{address}:{names.CLUSTER_PORT}{names.PATH_READYZ}"
    try:
        async with stack.client.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def send(stack: Stack, stopping: asyncio.Event, right: Counter[str], lost: list[str]) -> None:
    """Send inferences until `stopping`, and check each answer."""
    while not stopping.is_set():
        async with stack.client.post(stack.url(INFER), json=BODY) as answer:
            text = await answer.text()
            if answer.status != 200 or (await answer.json())["outputs"][0]["data"] != ANSWER:
                lost.append(f"{answer.status} {text}")
            right[answer.headers.get(names.HEADER_POD, "")] += 1


async def test_no_inference_is_lost_when_a_runtime_is_stopped_and_another_is_killed(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    right: Counter[str] = Counter()
    lost: list[str] = []
    stopping = asyncio.Event()
    async with gateway(pods=0) as stack:
        runtimes = await start_runtimes(stack, tmp_path, 3)
        try:
            await stack.until_endpoints(3)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(CLIENTS):
                    tasks.create_task(send(stack, stopping, right, lost))
                await stack.until(lambda: len(right) == 3)
                leaving = pod("pod-2", "demo", stack.address("pod-2"), deleting=True)
                await stack.api.put("pods", leaving)
                await stack.until_endpoints(2)
                runtimes[2].process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(runtimes[2].stopped)
                await stack.until_more(right.total, 50)
                runtimes[1].kill()
                await stack.until_more(right.total, 100)
                stopping.set()
            assert lost == []
        finally:
            for runtime in runtimes:
                runtime.kill()


async def test_the_deadline_of_a_request_is_the_pods_to_keep(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    async with gateway(pods=0) as stack:
        (runtime,) = await start_runtimes(stack, tmp_path, 1)
        try:
            await stack.until_endpoints(1)
            hurried = {"X-Request-Timeout-Ms": "1"}
            async with stack.client.post(stack.url(INFER), json=BODY, headers=hurried) as answer:
                assert answer.status in (429, 504)  # before, or after it was admitted
                assert "deadline" in await answer.text()
        finally:
            runtime.kill()
