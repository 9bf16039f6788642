"""Bodies of `infer` and of embeddings on both paths: never a 500, and equal answers.

The bulk is fed to the functions of both paths; a share crosses real sockets.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import MethodType
from typing import Any

import orjson
import pytest

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_runtime.engine.dynamic import warm_up
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.errors import BadInput, UnknownModel
from penstock_runtime.http.fast_path.endpoint import DeferredCall
from penstock_runtime.http.fast_path.endpoints import InferEndpoint
from penstock_runtime.http.fast_path.request_head import RequestHead
from penstock_runtime.models.device import memory
from penstock_runtime.protocols.open_inference.fast_reader import QuickReader
from penstock_runtime.protocols.open_inference.infer_request import InferCall
from penstock_runtime.protocols.open_inference.text_request import TextCall, read_call
from penstock_runtime.protocols.openai.embeddings import response as embedding_response
from tests.support.encoders.directories import write
from tests.support.fuzz.bodies import LONE, Body, body_of, embedding_body, text_body, tree_of
from tests.support.fuzz.budget import Fuzz
from tests.unit.runtime.http.fast_path.test_fast_path import VARYING, one_answer
from tests.unit.runtime.http.wire_cases import PATH, post
from tests.unit.runtime.protocols.open_inference.test_fast_reader import MODELS
from tests.unit.runtime.protocols.open_inference.test_texts import Texts, serve

AGELESS: dict[str, Any] = {"connection_age_seconds": 1e9, "connection_requests": 10**9}
"""Connections end after as many requests in both paths, and not at an age that each draws for itself."""
Read = Callable[[bytes, str | None], Any]


def outcome(read: Read, body: Body) -> Any:
    """Return what a reader makes of a body, in values that compare; anything but a rejection is raised."""
    try:
        call = read(*body)
    except BadInput as refused:
        return refused.status, refused.message, refused.field
    orjson.dumps(call.options.id)  # the answer repeats it
    if type(call) is InferCall:
        tensors = [
            (name, tensor.dtype, tensor.shape, tensor.tobytes())
            for name, tensor in call.inputs.items()
        ]
        return tensors, call.rows, call.group, call.priority, call.timeout_seconds, call.options
    assert type(call) is TextCall
    return call


class Readers:
    """The readers of both paths for one model; that of the fast path keeps its cache, as in a pod."""

    def __init__(self, model: ModelInfo) -> None:
        self.model = model
        self.fast = [QuickReader(model, MAX_BATCH_SIZE).read]

    def slow(self, body: bytes, header_length: str | None) -> Any:
        return read_call(bytearray(body), header_length, self.model, None)


class TextReaders:
    """The readers of a pod whose model reads texts."""

    def __init__(self, pod: Texts) -> None:
        self._pod = pod.pod
        self._endpoint = InferEndpoint(pod.pod)
        self.fast = [self._read]

    def _read(self, body: bytes, header_length: str | None) -> Any:
        call = self._endpoint.read(body, RequestHead(len(body), "/", header_length))
        if isinstance(call, DeferredCall):
            assert isinstance(call.call, MethodType)
            return call.call.__self__
        return call

    def slow(self, body: bytes, header_length: str | None) -> Any:
        return read_call(bytearray(body), header_length, self._pod.model, self._pod.texts)


@pytest.fixture
async def texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Texts, Texts]]:
    """Two encoders, one on each path."""
    monkeypatch.setattr(warm_up, "WARM_UP_SECONDS", 0.02)
    monkeypatch.setattr(memory, "MEASURING_SECONDS", 0.02)
    write(tmp_path / "Embedding")
    pods = [
        await serve(tmp_path, "Embedding", tmp_path, fast_path=fast, **AGELESS)
        for fast in (True, False)
    ]
    yield pods[0], pods[1]
    for pod in pods:
        await pod.close()


def both_readers_agree(fuzz: Fuzz, pod: Texts) -> None:
    """Feed bodies to the readers of both paths."""
    draw = fuzz.random
    tensors = [Readers(model) for model in (*MODELS, *LONE)]
    encoders = TextReaders(pod)
    valid = 0
    for _ in fuzz.rounds():
        kind = draw.random()
        if kind < 0.1:
            valid += checked(
                lambda body, _: embedded(body, pod), (embedding_body(draw), None), fuzz
            )
        elif kind < 0.25:
            valid += agree(encoders, text_body(draw), fuzz)
        else:
            readers = draw.choice(tensors)
            valid += agree(readers, body_of(tree_of(readers.model, draw), draw), fuzz)
    print(f"{valid} of {fuzz.done} were valid")
    assert 0.1 < valid / fuzz.done < 0.9


def agree(readers: Readers | TextReaders, body: Body, fuzz: Fuzz) -> bool:
    """Return whether a body is valid, which all readers say alike."""
    expected = checked(lambda *given: outcome(readers.slow, given), body, fuzz)
    for read in readers.fast:
        said = checked(lambda *given: outcome(read, given), body, fuzz)  # noqa: B023
        assert said == expected, f"{fuzz.where()}: {body!r}\n{said}\n{expected}"
    return type(expected[0] if isinstance(expected, tuple) else None) is not int


def embedded(body: bytes, pod: Texts) -> bool:
    """Return whether a call for embeddings is valid; both paths read it by this function."""
    try:
        embedding_response.read(body, pod.pod)
    except (BadInput, UnknownModel):
        return False
    return True


def checked(read: Read, body: Body, fuzz: Fuzz) -> Any:
    """Return what `read` returns; what it raises would be a 500."""
    try:
        return read(*body)
    except Exception as error:
        raise AssertionError(f"{fuzz.where()}: {body!r} is a 500: {error!r}") from error


async def test_readers_of_both_paths_agree(texts: tuple[Texts, Texts]) -> None:
    both_readers_agree(Fuzz("bodies", 20_000, seed=1), texts[0])


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_readers_of_both_paths_agree_on_a_million_bodies(texts: tuple[Texts, Texts]) -> None:
    both_readers_agree(Fuzz("bodies", 1_000_000), texts[0])


class Client:
    """A connection to one pod, opened again whenever the pod closed it."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rsplit(":", 1)[1])
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, sent: bytes) -> bytes:
        """Return the answer to one request, but for what differs from answer to answer."""
        reader, writer = self._streams or await asyncio.open_connection("127.0.0.1", self._port)
        self._streams = reader, writer
        writer.write(sent)
        async with asyncio.timeout(30):
            said = await one_answer(reader)
        if b"Connection: close" in said:
            self.close()
        return VARYING.sub(b"~", said)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def request_of(body: Body, path: str) -> bytes:
    text, length = body
    return post(
        text, *([] if length is None else [f"Inference-Header-Content-Length: {length}"]), path=path
    )


UNCOMPARED = (b"HTTP/1.1 429", b"HTTP/1.1 504")
"""A deadline of microseconds is met or not by chance."""


async def both_lanes_answer_alike(
    fuzz: Fuzz, tensors: tuple[Any, Any], texts: tuple[Texts, Texts]
) -> None:
    """Send bodies to pods of both paths."""
    draw, halves = fuzz.random, tensors[0].model.info
    tensor_clients, text_clients = ([Client(pod.url) for pod in pods] for pods in (tensors, texts))
    try:
        for _ in fuzz.rounds():
            match draw.randrange(4):
                case 0:
                    sent, clients = (
                        request_of(text_body(draw), "/v2/models/texts/infer"),
                        text_clients,
                    )
                case 1:
                    sent, clients = (
                        request_of((embedding_body(draw), None), "/v1/embeddings"),
                        text_clients,
                    )
                case _:
                    body = body_of(tree_of(halves, draw), draw)
                    sent, clients = request_of(body, PATH), tensor_clients
            fast, slow = [await client.ask(sent) for client in clients]
            where = f"{fuzz.where()}: {sent!r}\n{fast!r}\n{slow!r}"
            assert fast.startswith(b"HTTP/1.1 "), where
            assert not fast.startswith(b"HTTP/1.1 500"), where
            assert fast == slow or fast.startswith(UNCOMPARED) or slow.startswith(UNCOMPARED), where
    finally:
        for client in (*tensor_clients, *text_clients):
            client.close()
    for counters in (pod.pod.counters for pod in (*tensors, *texts)):
        assert counters.settled() == counters.received > 0


@pytest.fixture
async def tensors(start: Any) -> tuple[Any, Any]:
    """Two tensor pods, one on each path."""
    return await start(fast_path=True, **AGELESS), await start(fast_path=False, **AGELESS)


async def test_both_paths_answer_odd_bodies_alike(
    tensors: tuple[Any, Any], texts: tuple[Texts, Texts]
) -> None:
    await both_lanes_answer_alike(Fuzz("bodies over sockets", 500, seed=1), tensors, texts)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_both_paths_answer_many_odd_bodies_alike(
    tensors: tuple[Any, Any], texts: tuple[Texts, Texts]
) -> None:
    await both_lanes_answer_alike(Fuzz("bodies over sockets", 30_000), tensors, texts)
