"""Whether an engine is stuck, decided on times that are made up, and by a pod whose engine is in a thread."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.serving.health import ASLEEP_SECONDS, STUCK_FACTOR, EngineWatch, why_stuck

PATIENCE = 30.0
IDLE = Heartbeat(last_step=100.0, busy=False, predicted_seconds=0.0, alive_at=100.0)
BUSY = Heartbeat(last_step=100.0, busy=True, predicted_seconds=0.1, alive_at=100.0)
seconds = st.floats(0.0, 1e5)


def why(heartbeat: Heartbeat, now: float, *, since: float | None = None, delay: float = 0.0) -> Any:
    return why_stuck(heartbeat, since, PATIENCE, delay, now)


def test_a_busy_engine_is_stuck_after_thirty_seconds_without_progress() -> None:
    assert why(BUSY, 129.9) is None
    assert "no progress for 31 s" in why(BUSY, 131.0)


def test_a_long_step_is_given_twenty_times_what_was_predicted() -> None:
    slow = replace(BUSY, predicted_seconds=5.0)
    assert why(slow, 199.0) is None
    assert "predicted to take 5 s" in why(slow, 201.0)


def test_an_idle_engine_that_ticks_is_not_stuck_however_long_it_idles() -> None:
    assert why(replace(IDLE, alive_at=1e6), 1e6) is None


@pytest.mark.parametrize("since", [None, 90.0, 110.0])
def test_an_idle_engine_is_stuck_once_it_shows_no_sign_of_life(since: float | None) -> None:
    assert why(IDLE, 129.9, since=since) is None
    assert "no sign of life for 31 s" in why(IDLE, 131.0, since=since)


def test_an_engine_that_ticks_and_makes_no_step_for_what_waits_is_stuck() -> None:
    ticking = replace(IDLE, alive_at=199.0)
    assert why(ticking, 200.0) is None, "it has no request to serve"
    assert why(ticking, 200.0, since=171.0) is None
    assert "requests wait" in why(ticking, 200.0, since=169.0)
    assert why(ticking, 200.0, since=169.0, delay=5.0) is None, "it may hold a batch so long"


def test_time_in_which_the_pod_was_suspended_does_not_count() -> None:
    watch = EngineWatch(PATIENCE)
    for now in range(100, 111):
        assert watch.look(IDLE, 100.0, 0.0, float(now)) is None
    assert watch.look(IDLE, 100.0, 0.0, 1000.0) is None, "the whole pod was suspended"
    verdicts = [watch.look(IDLE, 100.0, 0.0, 1000.0 + s) for s in range(1, 40)]
    assert verdicts.index(next(verdict for verdict in verdicts if verdict)) == PATIENCE


def test_a_busy_engine_in_a_suspended_pod_gets_its_whole_patience_again() -> None:
    watch = EngineWatch(PATIENCE)
    assert watch.look(BUSY, 90.0, 0.0, 110.0) is None
    assert watch.look(BUSY, 90.0, 0.0, 110.0 + 10 * ASLEEP_SECONDS) is None


@given(alive=seconds, step=seconds, now=seconds, predicted=seconds, busy=st.booleans())
def test_an_engine_that_has_just_moved_is_never_stuck(
    alive: float, step: float, now: float, predicted: float, busy: bool
) -> None:
    heartbeat = Heartbeat(now - min(step, PATIENCE), busy, predicted, now - min(alive, PATIENCE))
    assert why(heartbeat, now, since=0.0) is None


@given(silent=seconds, predicted=seconds, busy=st.booleans(), waits=st.booleans())
def test_every_silence_beyond_what_is_allowed_is_found(
    silent: float, predicted: float, busy: bool, waits: bool
) -> None:
    now = 1e6
    heartbeat = Heartbeat(now - silent, busy, predicted, now - silent)
    allowed = max(PATIENCE, STUCK_FACTOR * predicted) if busy else PATIENCE
    verdict = why(heartbeat, now, since=0.0 if waits else None)
    assert (verdict is not None) == (now - heartbeat.last_step > allowed)


@given(st.lists(st.tuples(st.floats(0.1, 4.0), st.booleans()), max_size=60))
def test_a_verdict_needs_a_whole_patience_of_looks_without_a_sign(
    looks: list[tuple[float, bool]],
) -> None:
    watch, now, sign = EngineWatch(PATIENCE), 50.0, 50.0
    watch.look(replace(IDLE, alive_at=sign), None, 0.0, now)
    for pause, signs in looks:
        now += pause
        sign = now if signs else sign
        verdict = watch.look(replace(IDLE, alive_at=sign), None, 0.0, now)
        assert (verdict is not None) == (now - sign > PATIENCE)


async def test_a_pod_whose_engine_is_stuck_fails_what_it_holds_and_says_so(
    pod: Any, call: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.model.gate.clear()
    tasks = [asyncio.create_task(pod.infer(call())) for _ in range(3)]
    await until(lambda: pod.pod.admission.submitted() == 3)
    killed: list[bool] = []
    monkeypatch.setattr(pod.pod.link, "kill", lambda: killed.append(True))
    beat = pod.pod.link.heartbeat()
    monkeypatch.setattr(EngineWatch, "look", lambda *_: "no progress for 31 s")
    await asyncio.wait_for(pod.pod.watch_engine(), 5)
    assert beat.busy
    assert killed == [True]
    for task in tasks:
        reply = await task
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
        assert "stuck: no progress for 31 s" in (await reply.json())["error"]
    async with pod.session.get(pod.cluster_url + "/healthz") as reply:
        assert reply.status == 500
        assert "stuck: no progress for 31 s" in await reply.text()
    assert pod.pod.died.is_set()
    assert pod.pod.counters.settled() == pod.pod.counters.received == 3
    pod.model.gate.set()
