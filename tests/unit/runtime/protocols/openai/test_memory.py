"""Memory limit of the requests of a generating pod, including those that never reach the engine."""

from collections.abc import Callable

import httpx2
import pytest

from tests.unit.runtime.protocols.openai.served import Served


@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions"])
def test_a_body_beyond_the_memory_limit_is_rejected(
    serve: Callable[..., Served], path: str
) -> None:
    served = serve(max_held_bytes=20_000)
    with httpx2.Client(base_url=served.url) as http:
        assert http.post(path, json={"prompt": "a" * 30_000}).status_code == 429
        assert http.post(path, json={"prompt": "a river", "max_tokens": 1}).status_code == 200
    assert served.ask(lambda: served.pod.admission.memory.held_bytes) == 0
