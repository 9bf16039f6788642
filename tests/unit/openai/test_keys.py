"""A pod that asks for keys: over HTTP, for every protocol."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import openai
import pytest

from tests.unit.openai.served import Served

KEYS = {"keys": [{"key": "secret-of-a", "tenant": "a", "maxTokens": 4}]}


@pytest.fixture
def guarded(serve: Callable[..., Served], tmp_path: Path) -> Served:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS))
    served = serve(api_keys_file=path)
    assert served.pod.callers._ring is not None
    served.pod.callers._ring.reload()
    return served


def test_a_key_opens_the_pod_and_bounds_the_answer(guarded: Served) -> None:
    prompt = {"model": "tiny", "prompt": "The river"}
    with openai.OpenAI(
        base_url=f"{guarded.url}/v1", api_key="secret-of-a", max_retries=0
    ) as client:
        answer = client.completions.create(**prompt, extra_body={"ignore_eos": True})  # type: ignore[call-overload]
        assert answer.usage.completion_tokens == 4
        with pytest.raises(openai.BadRequestError, match="with this API key"):
            client.completions.create(**prompt, max_tokens=5)  # type: ignore[call-overload]


def test_without_a_key_nothing_but_probes_is_answered(guarded: Served) -> None:
    with httpx2.Client(base_url=guarded.url) as http:
        for path in ("/v1/completions", "/v2/models/tiny/generate", "/tokenize"):
            answer = http.post(path, json={})
            assert answer.status_code == 401
            assert "API key" in answer.json()["error"]["message"]
        assert http.get("/health").status_code == 200
    counters = guarded.pod.counters
    assert guarded.ask(counters.settled) == counters.refused["Unauthenticated"] == 3
