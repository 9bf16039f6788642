"""A drain hands generations over to another pod; clients see the answers of an undisturbed run. Pods and HTTP are real."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock_runtime.drain import INTERRUPT_SECONDS, drain
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.request import RequestOutcome
from tests.unit.runtime.protocols.handover.cases import (
    CALLS,
    GATE,
    TEXT,
    Call,
    PoolAddress,
    answer_of,
    by_choice,
)
from tests.unit.runtime.protocols.handover.conftest import STEP
from tests.unit.runtime.protocols.openai.served import Served

Serve = Callable[..., Served]
FAILED = b"this pod is terminating: retry"

HANDOVER = "penstock_runtime.serving.generation.handover"


class Drained:
    """The answers of a pod that is drained once each of `calls` has some tokens."""

    def __init__(self, pod: Served, calls: Mapping[str, Call], tokens: int = 10) -> None:
        self.pod = pod
        self.answers = {
            name: asyncio.create_task(answer_of(pod.url, call)) for name, call in calls.items()
        }
        self._tokens = tokens

    async def begin(self, step_seconds: float = 0.0) -> None:
        """Drain; steps stand still until the engine knows it, and then for `step_seconds`."""
        pending = self.pod.pod.admission._pending
        prompts = sum(2 if name == "two prompts" else 1 for name in self.answers)

        def begun() -> bool:
            counts = [entry.tokens for entry in pending.values()]
            return len(counts) == prompts and min(counts) >= self._tokens

        await asyncio.to_thread(self.pod.until, begun)
        self.pod.step.gate.clear()
        self.draining = asyncio.run_coroutine_threadsafe(
            drain(self.pod.pod, self.pod.clients), self.pod.loop
        )
        await asyncio.to_thread(self.pod.until, lambda: self.pod.pod.health.rejecting)
        await asyncio.sleep(step_seconds)
        self.pod.step.gate.set()

    async def ended(self) -> dict[str, bytes]:
        """Return the answers, once the drain is over too."""
        answers = {name: await answer for name, answer in self.answers.items()}
        await asyncio.wrap_future(self.draining)
        return answers


async def settles(pod: Served) -> None:
    """Wait until every request of `pod` has one end, and its engine none."""
    counters, admission = pod.pod.counters, pod.pod.admission
    await asyncio.to_thread(
        pod.until, lambda: counters.received == counters.settled() and admission.empty()
    )


async def test_every_answer_equals_an_undisturbed_one(serve: Serve, pool: PoolAddress) -> None:
    invariant = replace(STEP, batch_invariant=True)  # the bits of log-probabilities are compared
    first, second = serve(step=invariant), serve(step=invariant)
    whole = await asyncio.gather(*(answer_of(second.url, call) for call in CALLS.values()))
    undisturbed = dict(zip(CALLS, whole, strict=True))
    pool.pods = [second.url]
    drained = Drained(first, CALLS)
    await drained.begin()
    answers = await drained.ended()
    for name in CALLS:
        assert by_choice(answers[name]) == by_choice(undisturbed[name]), name
        assert len(undisturbed[name]) > 200, name
    assert first.pod.engine.tokens.handed_over == len(CALLS) + 1  # one has two prompts
    assert second.pod.engine.tokens.taken_over == len(CALLS) + 1
    assert pool.statuses == [200] * (len(CALLS) + 1)
    for pod in (first, second):
        await settles(pod)
    outcomes = [pod.pod.counters.ended for pod in (first, second)]
    handed_over = {RequestOutcome.HANDED_OVER: len(CALLS) + 1}
    completed = {RequestOutcome.COMPLETED: 2 * (len(CALLS) + 1)}  # and the undisturbed ones
    assert outcomes == [handed_over, completed], "each answer counts once"


async def test_a_stop_string_that_ends_after_the_hand_over_cuts_the_answer(
    serve: Serve, pool: PoolAddress
) -> None:
    first, second = serve(), serve()
    pool.pods = [second.url]
    whole = {"stream": False, "seed": 21}
    text = (await answer_of(second.url, (TEXT, {**GATE, **whole}))).decode()
    inner = text.split('"text":"')[1].split('","logprobs"')[0]
    stop = inner[-40:-36]
    assert "\\" not in stop
    call: Call = (TEXT, {**GATE, "seed": 21, "stop": [stop], "n": 2})
    expected = await answer_of(second.url, call)
    drained = Drained(first, {"stopped": call})
    await drained.begin()
    assert by_choice((await drained.ended())["stopped"]) == by_choice(expected)
    assert b'"finish_reason":"stop"' in expected
    await settles(second)


async def test_a_pod_that_dies_in_the_middle_is_replaced_by_another(
    serve: Serve, pool: PoolAddress
) -> None:
    first, second, third = serve(), serve(), serve()
    call = CALLS["penalties"]
    expected = await answer_of(third.url, call)
    pool.pods, pool.cut_after_bytes = [second.url, third.url], 500
    drained = Drained(first, {"one": call})
    await drained.begin()
    assert (await drained.ended())["one"] == expected
    assert (second.pod.engine.tokens.taken_over, third.pod.engine.tokens.taken_over) == (1, 1)
    assert 10 < second.pod.engine.tokens.generated_tokens < 64
    await settles(second)


async def test_a_pod_that_drains_too_gives_the_generation_back(
    serve: Serve, pool: PoolAddress
) -> None:
    first, second, third = serve(), serve(), serve()
    expected = await answer_of(third.url, CALLS["choices"])
    pool.pods = [second.url, third.url]
    drained = Drained(first, {"one": CALLS["choices"]})
    await drained.begin()
    again = Drained(second, {})
    again.answers = {"": asyncio.create_task(asyncio.sleep(0, b""))}
    await again.begin()
    assert by_choice((await drained.ended())["one"]) == by_choice(expected)
    await again.ended()
    assert third.pod.engine.tokens.taken_over == 1


async def test_a_generation_is_handed_over_after_a_long_step(
    serve: Serve, pool: PoolAddress
) -> None:
    first, second = serve(), serve()
    expected = await answer_of(second.url, CALLS["seeded"])
    pool.pods = [second.url]
    drained = Drained(first, {"one": CALLS["seeded"]})
    await drained.begin(step_seconds=INTERRUPT_SECONDS + 0.5)
    assert (await drained.ended())["one"] == expected


async def test_a_client_that_leaves_frees_both_pods(serve: Serve, pool: PoolAddress) -> None:
    first, second = serve(), serve()
    pool.pods = [second.url]
    drained = Drained(first, {"one": CALLS["seeded"]})
    second.step.gate.clear()
    await drained.begin()
    await asyncio.to_thread(second.until, lambda: bool(second.pod.admission.submitted()))
    drained.answers.pop("one").cancel()
    second.step.gate.set()
    await drained.ended()
    for pod in (first, second):
        await settles(pod)
    assert (
        first.pod.counters.ended[RequestOutcome.CANCELLED]
        == second.pod.counters.ended[RequestOutcome.CANCELLED]
        == 1
    )


async def test_a_pod_that_starts_later_continues_what_none_accepted(
    serve: Serve, pool: PoolAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{HANDOVER}.progress.MAX_FRUITLESS", 2)
    first = serve()
    drained = Drained(first, {"one": CALLS["seeded"]})
    await drained.begin()
    await asyncio.to_thread(first.until, lambda: len(pool.statuses) >= 4)
    second = serve()
    expected = await answer_of(second.url, CALLS["seeded"])
    pool.pods = [second.url]
    assert (await drained.ended())["one"] == expected


@pytest.mark.parametrize("why", ["no peers", "no pod", "another type", "no time"])
async def test_what_no_pod_continues_ends_visibly(
    serve: Serve, pool: PoolAddress, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{HANDOVER}.progress.MAX_FRUITLESS", 3)
    monkeypatch.setattr(f"{HANDOVER}.peers.MIN_ABSENT_SECONDS", 0.5)
    monkeypatch.setattr("penstock_runtime.serving.generation.client.MIN_ABSENT_SECONDS", 0.5)
    more: dict[str, Any] = {"no peers": {"peer_url": None}, "no time": {"relay_seconds": 0.0}}
    first = serve(**more.get(why, {}))
    if why == "another type":
        pool.pods = [serve(step=replace(STEP, dtype=DType.FLOAT32)).url]
    calls = {"stream": CALLS["seeded"], "whole": CALLS["whole"]}
    drained = Drained(first, calls)
    await drained.begin()
    answers = await drained.ended()
    assert FAILED in answers["stream"]
    assert answers["stream"].endswith(b"data: [DONE]\n\n")
    assert FAILED in answers["whole"]
    if why == "no pod":
        assert set(pool.statuses) == {503}
        assert len(pool.statuses) >= 4
    if why == "another type":
        assert pool.statuses == [409] * 6
    assert first.pod.counters.ended[RequestOutcome.FAILED] == 2
    await settles(first)
