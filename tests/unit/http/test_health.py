"""`/healthz` and `/readyz`: a saturated engine is not dead, a dead one is not healthy."""

import asyncio
from typing import Any

from penstock_runtime.health import Stage, stuck
from penstock_runtime.link.base import Heartbeat
from penstock_runtime.link.messages import EngineDied


def test_an_idle_engine_is_never_stuck() -> None:
    assert not stuck(Heartbeat(last_step=0.0, busy=False, predicted_seconds=0.0), now=1e6)


def test_a_busy_engine_is_stuck_after_thirty_seconds_without_a_step() -> None:
    heartbeat = Heartbeat(last_step=100.0, busy=True, predicted_seconds=0.1)
    assert not stuck(heartbeat, now=129.9)
    assert stuck(heartbeat, now=130.1)


def test_a_long_step_is_given_twenty_times_what_was_predicted() -> None:
    heartbeat = Heartbeat(last_step=100.0, busy=True, predicted_seconds=5.0)
    assert not stuck(heartbeat, now=199.0)
    assert stuck(heartbeat, now=201.0)


async def probe(pod: Any, path: str) -> tuple[int, str]:
    async with pod.session.get(pod.cluster_url + path) as reply:
        return reply.status, (await reply.text()).strip()


async def test_probes_follow_the_life_of_a_pod(pod: Any) -> None:
    assert await probe(pod, "/healthz") == (200, "ok")
    assert await probe(pod, "/readyz") == (200, "ok")
    pod.pod.health.stage = Stage.CLOSING
    assert await probe(pod, "/healthz") == (200, "ok")
    assert await probe(pod, "/readyz") == (503, "Closing")
    pod.pod.deliver(EngineDied("out of luck"))
    assert await probe(pod, "/healthz") == (500, "EngineDied: out of luck")
    assert await probe(pod, "/readyz") == (503, "EngineDied")


async def test_the_engines_death_ends_every_request_and_refuses_the_next(
    pod: Any, call: Any, until: Any
) -> None:
    pod.model.gate.clear()
    held = [asyncio.create_task(pod.infer(call())) for _ in range(3)]
    await until(lambda: len(pod.pod.admission._held) == 3)
    pod.pod.deliver(EngineDied("out of luck"))
    for one in held:
        reply = await one
        assert reply.status == 500
        assert "out of luck" in (await reply.json())["error"]
    async with await pod.infer(call()) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert pod.pod.counters.settled() == pod.pod.counters.received == 4
