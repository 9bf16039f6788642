"""Memory limit of the requests of a generating pod, including those that never reach the engine."""

from collections.abc import Callable

import httpx2
import pytest

from penstock_runtime.request import RequestOutcome
from tests.unit.runtime.protocols.openai.served import Served


@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions"])
def test_a_body_beyond_the_memory_limit_is_rejected(
    serve: Callable[..., Served], path: str
) -> None:
    served = serve(max_held_bytes=20_000)
    with httpx2.Client(base_url=served.url) as http:
        assert http.post(path, json={"prompt": "a" * 30_000}).status_code == 413
        assert http.post(path, json={"prompt": "a river", "max_tokens": 1}).status_code == 200
    assert served.ask(lambda: served.pod.admission.memory.held_bytes) == 0


def test_choices_are_counted_before_they_are_generated(serve: Callable[..., Served]) -> None:
    served = serve(max_held_bytes=400_000)
    with httpx2.Client(base_url=served.url, timeout=30) as http:
        body = {"prompt": "a river", "max_tokens": 1}
        assert http.post("/v1/completions", json=body | {"n": 64}).status_code == 200
        refused = http.post("/v1/completions", json=body | {"n": 128})
    assert (refused.status_code, "Retry-After" in refused.headers) == (413, False)
    assert "this request needs" in refused.json()["error"]["message"]
    assert served.ask(lambda: served.pod.admission.memory.held_bytes) == 0


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/v1/completions", {"prompt": "a river", "logprobs": 5}),
        (
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": "a river"}],
                "logprobs": True,
                "top_logprobs": 5,
            },
        ),
    ],
)
def test_a_whole_answer_is_counted_while_it_grows(
    serve: Callable[..., Served], path: str, options: dict[str, object]
) -> None:
    served = serve(max_held_bytes=100_000)
    body = options | {"max_tokens": 400, "ignore_eos": True}
    counters = served.pod.counters
    with httpx2.Client(base_url=served.url, timeout=30) as http:
        assert http.post(path, json=body).status_code == 413
        assert http.post(path, json=body | {"max_tokens": 20}).status_code == 200
        assert http.post(path, json=body | {"stream": True}).status_code == 200
    assert served.ask(lambda: served.pod.admission.memory.held_bytes) == 0
    assert served.ask(lambda: counters.rejected["TooLarge"]) == 1
    assert served.ask(lambda: counters.ended[RequestOutcome.CANCELLED]) == 0


def test_newcomers_that_fill_the_memory_end_no_whole_answer(serve: Callable[..., Served]) -> None:
    served = serve(max_held_bytes=100_000)
    memory = served.pod.admission.memory
    body = {"prompt": "a river", "max_tokens": 20, "ignore_eos": True}

    def fill() -> None:
        memory.hold_unread(100_000)
        served.step.gate.set()

    served.step.gate.clear()
    served.when_submitted(fill)
    with httpx2.Client(base_url=served.url, timeout=30) as http:
        assert http.post("/v1/completions", json=body).status_code == 200
        assert http.post("/v1/completions", json=body).status_code == 429
    assert served.ask(lambda: memory.held_bytes) == 100_000
