"""A silent stream sends comments, whether or not tokens come."""

import time
from collections.abc import Callable

import httpx2
import pytest

from penstock_runtime.engine.continuous.sequence import SampledToken
from tests.unit.runtime.protocols.openai.served import END, Served

Serve = Callable[..., Served]
PATH = "/v1/completions"
PING = ": ping"


def test_an_idle_stream_sends_pings(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock_runtime.protocols.openai.responder.PING_SECONDS", 0.05)
    body = {"prompt": "a", "max_tokens": 2, "stream": True}
    with (
        served.held_still(),
        httpx2.Client(base_url=served.url, timeout=20) as http,
        http.stream("POST", PATH, json=body) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == PING
        served.step.gate.set()
        events = [line for line in lines if line and line != PING]
    assert events[0].startswith("data: {")
    assert events[-1] == "data: [DONE]"


def test_a_stream_of_tokens_that_are_left_out_sends_pings(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_runtime.protocols.openai.responder.PING_SECONDS", 0.05)
    served = serve()

    def special(_row: object) -> SampledToken:
        time.sleep(0.01)
        return SampledToken(END)

    monkeypatch.setattr(served.step, "_scripted", special)
    served.step.script = (END,)
    body = {"prompt": "a", "max_tokens": 60, "ignore_eos": True, "stream": True}
    began = time.monotonic()
    with (
        httpx2.Client(base_url=served.url, timeout=20) as http,
        http.stream("POST", PATH, json=body) as answer,
    ):
        lines = [line for line in answer.iter_lines() if line]
    assert 3 <= lines.count(PING) <= (time.monotonic() - began) / 0.05
    assert [line for line in lines if line != PING][-1] == "data: [DONE]"
