"""`/healthz` and `/readyz`: a saturated engine is not dead, a dead one is not healthy."""

import asyncio
from typing import Any

import pytest

from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.serving.health import Health, Stage


async def probe(pod: Any, path: str, **headers: str) -> tuple[int, str]:
    async with pod.session.get(pod.cluster_url + path, headers=headers) as reply:
        return reply.status, (await reply.text()).strip()


async def kubelet_probe(pod: Any) -> tuple[int, str]:
    """Send a readiness probe as the kubelet does."""
    return await probe(pod, "/readyz", **{"User-Agent": "kube-probe/1.36", "Accept": "*/*"})


async def test_probes_follow_the_life_of_a_pod(pod: Any) -> None:
    assert await probe(pod, "/healthz") == (200, "ok")
    assert await probe(pod, "/readyz") == (200, "ok")
    pod.pod.health.stage = Stage.CLOSING
    assert await probe(pod, "/healthz") == (200, "ok")
    assert await probe(pod, "/readyz") == (503, "Closing")
    pod.pod.deliver(EngineDied("out of luck"))
    assert await probe(pod, "/healthz") == (500, "EngineDied: out of luck")
    assert await probe(pod, "/readyz") == (503, "EngineDied")


async def test_a_probe_waits_until_the_model_is_loaded(pod: Any) -> None:
    waits = "/readyz?waitSeconds=600"
    pod.pod.health.loaded.clear()
    pod.pod.health.stage = Stage.LOADING
    assert await probe(pod, "/readyz") == (503, "Loading")
    assert await probe(pod, "/readyz?waitSeconds=1") == (503, "Loading")
    startup = asyncio.create_task(probe(pod, waits))
    assert await probe(pod, "/healthz") == (200, "ok")
    assert not startup.done()
    pod.pod.health.stage = Stage.SERVING
    assert await startup == (200, "ok")
    assert await probe(pod, waits) == (200, "ok")
    pod.pod.health.stage = Stage.DEAD
    assert await probe(pod, waits) == (503, "EngineDied")


@pytest.mark.parametrize("text", ["", "soon", "-1", "3601", "1.5", "9" * 5000])
async def test_a_wait_that_is_no_number_of_seconds_is_rejected(pod: Any, text: str) -> None:
    status, message = await probe(pod, f"/readyz?waitSeconds={text}")
    assert status == 400
    assert "waitSeconds must be an integer from 0 to 3600" in message


async def test_a_pod_that_drains_stays_ready_for_the_kubelet_until_it_turns_a_request_away(
    pod: Any, call: Any
) -> None:
    for stage in (Stage.CLOSING, Stage.DRAINING):
        pod.pod.health.stage = stage
        assert await kubelet_probe(pod) == (200, "ok")
        assert await probe(pod, "/readyz") == (503, stage.value)
    async with await pod.infer(call()) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert await kubelet_probe(pod) == (503, "Draining")


async def test_the_kubelet_finds_no_pod_ready_whose_engine_died_while_it_drained(pod: Any) -> None:
    pod.pod.health.stage = Stage.DRAINING
    pod.pod.deliver(EngineDied("out of luck"))
    assert await kubelet_probe(pod) == (503, "EngineDied")


def test_a_pod_that_stops_before_its_model_is_loaded_was_never_ready() -> None:
    health = Health()
    health.stage = Stage.DRAINING
    assert not health.stopping


async def test_the_engines_death_ends_every_request_and_rejects_the_next(
    pod: Any, call: Any, until: Any
) -> None:
    pod.model.gate.clear()
    tasks = [asyncio.create_task(pod.infer(call())) for _ in range(3)]
    await until(lambda: pod.pod.admission.submitted() == 3)
    pod.pod.deliver(EngineDied("out of luck"))
    for task in tasks:
        reply = await task
        assert reply.status == 500
        assert "out of luck" in (await reply.json())["error"]
    async with await pod.infer(call()) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert pod.pod.counters.settled() == pod.pod.counters.received == 4


@pytest.mark.parametrize("fast_path", [True, False])
async def test_open_inference_health_has_the_body_that_kserves_client_reads(pod: Any) -> None:
    async def ask(path: str) -> tuple[int, Any]:
        async with pod.session.get(f"{pod.url}/v2/{path}") as reply:
            return reply.status, await reply.json()

    model = {"name": "halves", "ready": True}
    assert await ask("health/live") == (200, {"live": True})
    assert await ask("health/ready") == (200, {"ready": True})
    assert await ask("models/halves/ready") == (200, model)
    pod.pod.health.stage = Stage.CLOSING
    assert await ask("health/live") == (200, {"live": True})
    assert await ask("health/ready") == (503, {"ready": False})
    assert await ask("models/halves/ready") == (503, model | {"ready": False})
    pod.pod.deliver(EngineDied("out of luck"))
    assert await ask("health/live") == (500, {"live": False})
