"""Rejection of texts that exceed any context before tokenization, and the memory of tokenization."""

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from penstock_runtime.text.bounds import max_text_bytes
from penstock_runtime.text.encoding import MEMORY_PER_BYTE
from penstock_runtime.text.tokenizer import Tokenizer
from penstock_runtime.text.vocabulary import read_vocabulary
from tests.support.demo_model.tokenizer import make_tokenizer
from tests.unit.runtime.protocols.openai.served import POSITIONS, Served

LONG = "a" * (max_text_bytes(POSITIONS) + 1)
BODIES: list[tuple[str, Callable[[str], dict[str, Any]], str]] = [
    ("/v1/completions", lambda text: {"prompt": text}, "prompt"),
    ("/v1/completions", lambda text: {"prompt": ["a", text]}, "prompt"),
    ("/v1/chat/completions", lambda text: {"messages": [{"role": "user", "content": text}]}, "messages"),
    ("/tokenize", lambda text: {"prompt": text}, "prompt"),
    ("/tokenize", lambda text: {"messages": [{"role": "user", "content": text}]}, "messages"),
    ("/v2/models/tiny/generate", lambda text: {"text_input": text}, "text_input"),
]  # fmt: skip


@pytest.fixture
def encoded_lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the texts that are tokenized."""
    lengths: list[int] = []
    whole = Tokenizer.encode_full

    def encode_full(self: Tokenizer, text: str, *, add_special: bool) -> Any:
        lengths.append(len(text))
        return whole(self, text, add_special=add_special)

    monkeypatch.setattr(Tokenizer, "encode_full", encode_full)
    return lengths


@pytest.mark.parametrize(("path", "make", "field"), BODIES)
def test_a_text_that_cannot_fit_is_rejected_by_its_bytes(
    http: httpx2.Client,
    encoded_lengths: list[int],
    path: str,
    make: Callable[[str], dict[str, Any]],
    field: str,
) -> None:
    answer = http.post(path, json=make(LONG))
    body = answer.json()
    assert (answer.status_code, body["field"]) == (400, field)
    if not path.startswith("/v2/"):
        assert body["error"]["code"] == "context_length_exceeded"
    assert f"this model's maximum context length is {POSITIONS} tokens" in answer.text
    assert max(encoded_lengths, default=0) < len(LONG)


def test_a_text_of_the_maximum_bytes_is_tokenized(http: httpx2.Client) -> None:
    answer = http.post("/tokenize", json={"prompt": LONG[:-1]})
    assert answer.json()["count"] > POSITIONS


def test_more_ids_than_any_context_has_are_rejected(http: httpx2.Client) -> None:
    answer = http.post("/detokenize", json={"tokens": [5] * (2**18 + 1)})
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert http.post("/detokenize", json={"tokens": [5] * 2**18}).status_code == 200


@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions"])
def test_the_memory_of_tokenization_counts_among_the_bytes_of_requests(
    serve: Callable[..., Served], path: str
) -> None:
    served = serve(max_held_bytes=4000 * MEMORY_PER_BYTE)
    text = "river " * 450  # longer than what is tokenized without a thread
    body = {"prompt": text, "max_tokens": 1}
    with httpx2.Client(base_url=served.url) as http:
        give_back = served.ask(
            lambda: served.pod.admission.memory.hold_apart(2000 * MEMORY_PER_BYTE)
        )
        assert http.post(path, json=body).status_code == 429
        served.ask(give_back)
        assert http.post(path, json=body).status_code == 200
    served.until(lambda: served.pod.admission.memory.held_bytes == 0)


@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions"])
def test_a_text_beyond_the_pods_memory_is_a_400_that_names_the_setting(
    serve: Callable[..., Served], path: str
) -> None:
    served = serve(max_held_bytes=4000 * MEMORY_PER_BYTE)
    answer = httpx2.post(served.url + path, json={"prompt": "a" * 3501})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "prompt")
    assert "3501 bytes of text, more than the 3500" in error["message"]
    assert "PENSTOCK_MAX_HELD_BYTES" in error["message"]


def test_tokenization_releases_the_gil() -> None:
    backend = make_tokenizer()
    tokenizer = Tokenizer(backend, read_vocabulary(backend), None, None, {}, frozenset())
    ended = threading.Event()

    def work() -> None:
        tokenizer.encode_full("hello world " * 2**16, add_special=False)
        ended.set()

    began = last = time.perf_counter()
    longest = 0.0
    thread = threading.Thread(target=work)
    thread.start()
    while not ended.is_set():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    thread.join()
    assert longest < (last - began) / 2
