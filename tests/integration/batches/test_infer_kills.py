"""Asynchronous infer requests through a real pod, with the service killed before their webhook was answered."""

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.batches.process import BatchesProcess
from tests.support.batches.receiver import receiver
from tests.support.batches.stage import free_port
from tests.support.load.samples import sample_requests
from tests.support.runtime.process import start

FEATURES = 8
PATH = "/v2/models/demo/infer"


async def result(session: aiohttp.ClientSession, url: str) -> tuple[int, bytes]:
    """Poll until a request has ended, whether or not the service is there."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            async with session.get(url) as reply:
                if reply.status not in (202, 503):
                    return reply.status, await reply.read()
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError(url)


async def test_a_pod_answers_and_a_kill_repeats_the_webhook(tmp_path: Path) -> None:
    (tmp_path / "pod").mkdir()
    pod = start(tmp_path / "pod", {"features": str(FEATURES)})
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    try:
        await asyncio.to_thread(pod.ready)
        sample = sample_requests(1, 1, FEATURES)[0]
        async with receiver(*[503] * 1000) as hook, aiohttp.ClientSession() as session:
            environment = {
                "PENSTOCK_POOLS": f"demo={pod.client}",
                "PENSTOCK_WEBHOOK_HOSTS": hook.host,
            }
            service = BatchesProcess(tmp_path / "service", port, **environment)
            service.start()
            try:
                await asyncio.to_thread(service.listening)
                headers = {**sample.headers, "X-Penstock-Webhook": hook.url}
                async with session.post(url + PATH, data=sample.body, headers=headers) as reply:
                    assert reply.status == 202
                    location = url + reply.headers["Location"]
                await hook.until(1)
                await asyncio.to_thread(service.kill)
                hook.statuses.clear()
                calls = len(hook.got)
                service.start()
                await hook.until(calls + 1)
                status, content = await result(session, location)
                assert status == 200
                assert sample.accepts(content)
                bad: dict[str, Any] = {"inputs": []}
                async with session.post(url + PATH, json=bad) as reply:
                    location = url + reply.headers["Location"]
                async with session.post(pod.client + PATH, json=bad) as reply:
                    refused = (reply.status, await reply.json())
                status, content = await result(session, location)
                assert status == refused[0] == 400
                assert refused[1]["error"] in content.decode()
                assert (
                    await asyncio.to_thread(pod.metric, 'penstock_served_total{work="batch"}')
                ) == 1
            finally:
                service.kill()
    finally:
        pod.kill()
