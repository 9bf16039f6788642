"""Text encoders over HTTP: OpenAI's embeddings, and texts or tokens in Open Inference, on both paths."""

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_api.types.model import ModelSpec
from penstock_runtime.engine.dynamic import warm_up
from penstock_runtime.engine.link.batch import batch_thread_link
from penstock_runtime.http.server import ClientServer
from penstock_runtime.models.device import memory
from penstock_runtime.models.load import load
from penstock_runtime.protocols.openai.embeddings.response import EmbeddingOptions, reply_to
from penstock_runtime.request import Cancelled, End, Expired, Failed
from penstock_runtime.serving import tokenizer_pool
from penstock_runtime.serving.batch.client import BatchPod, batch_pod
from penstock_runtime.serving.tokenizer_pool import Ids
from penstock_runtime.telemetry.metrics import Exposition
from tests.support.encoders.directories import write
from tests.unit.runtime.conftest import config

LIMITS = LimitsUpdate(
    generation=1,
    max_batch_size=8,
    max_queue_depth=64,
    max_queue_delay_milliseconds=0,
    discipline=Discipline.FIRST_IN_FIRST_OUT,
)
FIVE = " ".join(f"w{n}" for n in range(3))
"""Five tokens."""


@dataclass
class Texts:
    """A pod that serves an encoder, and how to speak to it."""

    pod: BatchPod
    server: ClientServer
    session: aiohttp.ClientSession
    url: str

    async def close(self) -> None:
        await self.session.close()
        await self.server.stop()
        await self.pod.link.close()

    async def post(self, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        async with self.session.post(self.url + path, json=body, **more) as reply:
            return reply.status, await reply.json()

    async def embed(self, given: Any, **more: Any) -> tuple[int, Any]:
        return await self.post("/v1/embeddings", {"input": given, **more})

    async def infer(self, *inputs: Any, **more: Any) -> tuple[int, Any]:
        return await self.post("/v2/models/texts/infer", {"inputs": list(inputs), **more})


async def serve(root: Path, task: str, settings: Path, *, fast_path: bool, **more: object) -> Texts:
    claim = {"claimName": "models", "path": task}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    spec = ModelSpec.model_validate({"name": "texts", "task": task, "source": source})
    plain = config(settings, model=spec, model_folder=root, fast_path=fast_path, **more)
    pod = batch_pod(plain, batch_thread_link(partial(load, spec, "texts", root), LIMITS), LIMITS)
    server = ClientServer(pod, Exposition(pod))
    port = await server.start()
    await pod.load()
    session = aiohttp.ClientSession()
    return Texts(pod, server, session, f"http://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write(folder / "Embedding")
    write(folder / "Classification", labels=("bad", "good"))
    return folder


@pytest.fixture(autouse=True)
def short_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts a pod: a warm-up of two seconds each would be most of their time."""
    monkeypatch.setattr(warm_up, "WARM_UP_SECONDS", 0.02)
    monkeypatch.setattr(memory, "MEASURING_SECONDS", 0.02)


@pytest.fixture
async def embedder(root: Path, tmp_path: Path) -> AsyncIterator[Texts]:
    texts = await serve(root, "Embedding", tmp_path, fast_path=True)
    yield texts
    await texts.close()


@pytest.fixture(params=[True, False], ids=["fast-path", "aiohttp"])
async def on_path(
    request: pytest.FixtureRequest, root: Path, tmp_path: Path
) -> AsyncIterator[Texts]:
    texts = await serve(root, "Embedding", tmp_path, fast_path=request.param)
    yield texts
    await texts.close()


@pytest.fixture
async def classifier(root: Path, tmp_path: Path) -> AsyncIterator[Texts]:
    texts = await serve(root, "Classification", tmp_path, fast_path=True)
    yield texts
    await texts.close()


def words(*texts: str) -> dict[str, Any]:
    return {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": list(texts)}


def tokens(*rows: list[int]) -> list[dict[str, Any]]:
    shape = [len(rows), len(rows[0])]
    return [
        {"name": name, "datatype": "INT64", "shape": shape, "data": data}
        for name, data in (
            ("input_ids", [token for row in rows for token in row]),
            ("attention_mask", [1] * len(rows) * len(rows[0])),
        )
    ]


async def test_embeddings_look_as_openai_has_them(embedder: Texts) -> None:
    status, answer = await embedder.embed([FIVE, "w9"], model="texts")
    assert status == 200
    assert (answer["object"], answer["model"]) == ("list", "texts")
    assert answer["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
    assert [entry["index"] for entry in answer["data"]] == [0, 1]
    for entry in answer["data"]:
        assert entry["object"] == "embedding"
        assert np.linalg.norm(entry["embedding"]) == pytest.approx(1.0, abs=1e-5)
        assert len(entry["embedding"]) == 32


async def test_base64_holds_the_same_numbers(embedder: Texts) -> None:
    _, plain = await embedder.embed(FIVE)
    _, coded = await embedder.embed(FIVE, encoding_format="base64")
    raw = base64.b64decode(coded["data"][0]["embedding"])
    assert np.frombuffer(raw, "<f4").tolist() == pytest.approx(plain["data"][0]["embedding"])


async def test_texts_and_tokens_in_either_protocol_are_one_answer(on_path: Texts) -> None:
    ids = [2, 5, 6, 7, 3]
    answers = [await on_path.embed(given) for given in (FIVE, [FIVE], ids, [ids])]
    vectors = [answer["data"][0]["embedding"] for _, answer in answers]
    for inputs in ([words(FIVE)], tokens(ids)):
        status, answer = await on_path.infer(*inputs)
        assert (status, answer["outputs"][0]["shape"]) == (200, [1, 32])
        vectors.append(answer["outputs"][0]["data"])
    for vector in vectors:
        assert vector == pytest.approx(vectors[0], abs=1e-5)


async def test_mixed_lengths_share_a_batch_and_keep_their_places(embedder: Texts) -> None:
    texts = [" ".join("w1" for _ in range(size)) for size in (1, 30, 4, 62)]
    _, together = await embedder.embed(texts)
    for text, entry in zip(texts, together["data"], strict=True):
        _, alone = await embedder.embed(text)
        assert entry["embedding"] == pytest.approx(alone["data"][0]["embedding"], abs=1e-5)


async def test_the_metadata_names_the_text_input_first(classifier: Texts) -> None:
    async with classifier.session.get(f"{classifier.url}/v2/models/texts") as reply:
        said = await reply.json()
    assert said["inputs"][0] == {"name": "text", "datatype": "BYTES", "shape": [-1]}
    assert said["outputs"] == [{"name": "logits", "datatype": "FP32", "shape": [-1, 2]}]
    assert said["parameters"] == {"labels": ["bad", "good"]}


async def test_a_classifier_answers_logits_and_has_no_embeddings(classifier: Texts) -> None:
    status, answer = await classifier.infer(words(FIVE, "w5", "w6"))
    assert (status, answer["outputs"][0]["shape"]) == (200, [3, 2])
    assert (await classifier.post("/v1/embeddings", {"input": "w1"}))[0] == 404


LONG = " ".join(["w1"] * 63)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "input"),
        ({"input": []}, 400, "input"),
        ({"input": ["w1", ""]}, 400, "input[1]"),
        ({"input": ["w1", 3]}, 400, "input"),
        ({"input": [[1], []]}, 400, "input[1]"),
        ({"input": [[1], [5000]]}, 400, "input[1]"),
        ({"input": [[1], [-1]]}, 400, "input[1]"),
        ({"input": ["w1"] * 2049}, 400, "input"),
        ({"input": ["w1", LONG]}, 400, "input[1]"),
        ({"input": "w1", "model": "other"}, 404, "model"),
        ({"input": "w1", "encoding_format": "hex"}, 400, "encoding_format"),
        ({"input": "w1", "dimensions": 16}, 400, "dimensions"),
        ({"input": "w1", "priority": -1}, 400, "priority"),
        ({"input": "w1", "timeout": 0}, 400, "timeout"),
        ({"input": "w1", "truncate_prompt_tokens": 5}, 400, "truncate_prompt_tokens"),
        ([], 400, "body"),
    ],
)
async def test_an_invalid_call_names_its_field_in_openais_format(
    embedder: Texts, body: Any, status: int, field: str
) -> None:
    got, answer = await embedder.post("/v1/embeddings", body)
    assert got == status
    assert (answer["error"]["param"], answer["field"]) == (field, field)
    assert answer["error"]["message"]
    assert embedder.pod.counters.rejected.total() == 1


async def test_an_input_name_with_escapes_is_text_on_either_path(
    on_path: Texts,
) -> None:
    body = json.dumps({"inputs": [words(FIVE)]}).replace('"text"', '"te\\u0078t"')
    url = f"{on_path.url}/v2/models/texts/infer"
    async with on_path.session.post(url, data=body) as reply:
        assert reply.status == 200, await reply.text()


async def test_a_long_text_is_cut_where_the_client_asks(on_path: Texts) -> None:
    status, answer = await on_path.embed(LONG, truncate_prompt_tokens=-1)
    assert (status, answer["usage"]["prompt_tokens"]) == (200, 64)
    status, answer = await on_path.infer(words(LONG), parameters={"truncate": True})
    assert status == 200
    status, answer = await on_path.infer(words(LONG))
    assert (status, answer["field"]) == (400, "inputs[0].data[0]")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"datatype": "FP32"}, "inputs[0].datatype"),
        ({"shape": [2]}, "inputs[0].shape"),
        ({"data": [1]}, "inputs[0].data"),
        ({"data": "w1"}, "inputs[0].data"),
    ],
)
async def test_a_bad_text_tensor_names_its_field(
    on_path: Texts, change: dict[str, Any], field: str
) -> None:
    status, answer = await on_path.infer({**words("w1"), **change})
    assert (status, answer["field"]) == (400, field)


async def test_every_call_is_counted_once(on_path: Texts) -> None:
    await on_path.embed(["w1", "w2"])
    await on_path.infer(words("w1"))
    await on_path.infer(words(LONG))
    await on_path.embed("w1", model="other")
    counters = on_path.pod.counters
    assert counters.received == 4 == counters.settled()
    assert counters.rejected.total() == 2
    assert on_path.pod.admission.empty()


async def test_rows_are_held_at_the_length_of_the_longest(
    root: Path, tmp_path: Path, on_path: Texts
) -> None:
    given = [" ".join(["w1"] * 62), *["w1"] * 99]
    ids = [[2, *[6] * 62, 3], *[[2, 6, 3]] * 99]
    padded = 100 * 64 * 16
    admission = on_path.pod.admission
    admission.memory._max_bytes = padded - 1
    for answer in (
        await on_path.embed(given),
        await on_path.embed(ids),
        await on_path.infer(words(*given)),
    ):
        assert answer[0] == 413
    assert on_path.pod.counters.rejected == {"TooLarge": 3}
    admission.memory._max_bytes = padded
    assert (await on_path.embed(given))[0] == 200
    assert (await on_path.infer(words(*given)))[0] == 200


async def test_one_long_text_among_many_short_ones_is_rejected_with_the_sizes(
    on_path: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_pool, "MAX_PADDED_TOKENS", 100 * 64 - 1)
    given = [" ".join(["w1"] * 62), *["w1"] * 99]
    ids = [[2, *[6] * 62, 3], *[[2, 6, 3]] * 99]
    for field, (status, answer) in (
        ("input", await on_path.embed(given)),
        ("input", await on_path.embed(ids)),
        ("inputs[0].data", await on_path.infer(words(*given))),
    ):
        assert (status, answer["field"]) == (400, field)
    assert (await on_path.embed(given[:-1]))[0] == 200


async def test_texts_count_as_memory_while_they_wait_for_the_tokenizer(
    on_path: Texts, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    assert on_path.pod.texts is not None
    encode, shut, admission = on_path.pod.texts.encode, asyncio.Event(), on_path.pod.admission
    waiting = 0

    async def later(*given: Any, **more: Any) -> Any:
        nonlocal waiting
        waiting += 1
        await shut.wait()
        return await encode(*given, **more)

    monkeypatch.setattr(on_path.pod.texts, "encode", later)
    text = "x" * 2000 + "\N{WAVING HAND SIGN}"  # which makes every character four bytes
    admission.memory._max_bytes = 12_000
    first = asyncio.create_task(on_path.embed(text))
    await until(lambda: waiting == 1)
    assert admission.memory.held_bytes > 4 * len(text)
    assert (await on_path.embed("w1 " * 1500))[0] == 429
    shut.set()
    assert (await first)[0] == 200
    assert admission.memory.held_bytes == 0


@pytest.mark.parametrize("said", ["in the head", "in the body"])
async def test_texts_are_released_when_their_deadline_passes(
    on_path: Texts, monkeypatch: pytest.MonkeyPatch, until: Any, said: str
) -> None:
    assert on_path.pod.texts is not None
    begun, shut, kept = threading.Event(), threading.Event(), on_path.pod.texts._whole
    encode = kept._encode

    def later(texts: list[str]) -> list[Ids]:
        begun.set()
        assert shut.wait(10)
        return encode(texts)

    monkeypatch.setattr(kept, "_encode", later)
    first = asyncio.create_task(on_path.embed("w1"))
    await until(begun.is_set)
    in_head = said == "in the head"
    headers = {"X-Request-Timeout-Ms": "50"} if in_head else {}
    embedding = {} if in_head else {"timeout": 0.05}
    parameters = {} if in_head else {"timeout": 50_000}
    replies = [
        await on_path.post("/v1/embeddings", {"input": "w2", **embedding}, headers=headers),
        await on_path.post(
            "/v2/models/texts/infer",
            {"inputs": [words("w2")], "parameters": parameters},
            headers=headers,
        ),
    ]
    assert [status for status, _ in replies] == [429, 429]
    assert on_path.pod.counters.rejected == {"DeadlineUnreachable": 2}
    assert not kept._waiting
    shut.set()
    assert (await first)[0] == 200


@pytest.mark.parametrize(
    ("end", "status", "kind"),
    [
        (Expired(0.5), 504, "server_error"),
        (Failed("RuntimeError: a bad row"), 500, "server_error"),
        (Failed("draining", 2.0), 503, "server_error"),
        (Cancelled(), 499, "invalid_request_error"),
    ],
)
def test_ends_without_an_answer_have_openais_format(end: End, status: int, kind: str) -> None:
    reply = reply_to(end, EmbeddingOptions(3, base64=False), "texts")
    assert reply.status == status
    body = json.loads(bytes(reply.body))
    error = body["error"]
    assert (error["type"], error["code"], body["reason"]) == (kind, None, type(end).__name__)
    assert error["message"]
    assert ("Retry-After" in dict(reply.headers)) == (status == 503)
