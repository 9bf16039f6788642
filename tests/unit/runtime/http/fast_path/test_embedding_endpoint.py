"""Both paths answer the same bytes to a call of `/v1/embeddings`, and plain calls never meet aiohttp."""

import asyncio
import json
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic import warm_up
from penstock_runtime.engine.queue.disciplines import LOWEST_CLASS, priority_class
from penstock_runtime.models.device import memory
from penstock_runtime.protocols.common.json_structure import SMALL_BYTES
from penstock_runtime.protocols.open_inference.bodies import HEADER_LENGTH
from penstock_runtime.request import RequestOutcome
from tests.support.encoders.directories import write
from tests.unit.runtime.http.fast_path.test_fast_path import VARYING, by_aiohttp, converse
from tests.unit.runtime.http.wire_cases import Case, chunked, pieces, post
from tests.unit.runtime.protocols.open_inference.test_texts import FIVE, LONG, Texts, serve, words

EMBEDDINGS = "/v1/embeddings"


def call(given: Any, *fields: str, **more: Any) -> bytes:
    """Return a request for embeddings."""
    return post(json.dumps({"input": given, **more}).encode(), *fields, path=EMBEDDINGS)


PLAIN = call(FIVE)
CASES: dict[str, Case] = {
    "a text": Case((PLAIN,)),
    "several texts": Case((call([FIVE, "w9", "w1 ü"], model="texts"),)),
    "token ids": Case((call([2, 5, 6, 3]),)),
    "several rows of ids": Case((call([[2, 5, 3], [2, 3]]),)),
    "base64": Case((call(FIVE, encoding_format="base64"),)),
    "cut": Case((call(LONG, truncate_prompt_tokens=-1),)),
    "long ids, cut": Case((call([5] * 90, truncate_prompt_tokens=-1),)),
    "a priority and a deadline": Case((call(FIVE, priority=2, timeout=9.5),)),
    "a time-out header": Case((call(FIVE, "X-Request-Timeout-Ms: 60000"),)),
    "a broken time-out header": Case((call(FIVE, "X-Request-Timeout-Ms: 1e3"),)),
    "its own request id": Case((call(FIVE, "X-Request-Id: mine-1"),)),
    "one after another": Case((PLAIN, call("w9"), PLAIN), 3),
    "pipelined": Case((PLAIN + call("w9") + PLAIN,), 3),
    "in small pieces": Case(pieces(PLAIN, 23)),
    "chunked": Case((post(chunked(b'{"input":"w1"}'), "Transfer-Encoding: chunked", length=..., path=EMBEDDINGS),)),
    "the last": Case((call(FIVE, "Connection: close"),)),
    "too long": Case((call(["w1", LONG]), PLAIN), 2),
    "no JSON": Case((post(b"{", path=EMBEDDINGS), PLAIN), 2),
    "no UTF-8": Case((post(b'{"input":"\xff"}', path=EMBEDDINGS),)),
    "no body": Case((post(b"", path=EMBEDDINGS),)),
    "no object": Case((post(b"[]", path=EMBEDDINGS),)),
    "another model": Case((call(FIVE, model="other"),)),
    "an empty text": Case((call(["w1", ""]),)),
    "an id beyond the vocabulary": Case((call([[1], [5000]]),)),
    "a bad priority": Case((call(FIVE, priority=-1),)),
    "half a surrogate": Case((post(b'{"input":"\\ud800"}', path=EMBEDDINGS),)),
    "texts of Open Inference between": Case(
        (PLAIN, post(json.dumps({"inputs": [words(FIVE)]}).encode(), path="/v2/models/texts/infer"), PLAIN), 3
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "WARM_UP_SECONDS", 0.02)
    monkeypatch.setattr(memory, "MEASURING_SECONDS", 0.02)


@pytest.fixture
async def paths(tmp_path: Path) -> AsyncIterator[tuple[Texts, Texts]]:
    """A pod with the fast path, and one without."""
    write(tmp_path / "Embedding")
    pods = [
        await serve(tmp_path, "Embedding", tmp_path, fast_path=fast, body_timeout_seconds=1.0)
        for fast in (True, False)
    ]
    yield pods[0], pods[1]
    for texts in pods:
        await texts.close()


async def test_both_paths_answer_every_call_with_the_same_bytes(paths: tuple[Texts, Texts]) -> None:
    fast, slow = paths
    different = {}
    for name, case in CASES.items():
        said = [VARYING.sub(b"~", await converse(pod.url, case)) for pod in paths]
        if said[0] != said[1] or not said[0].startswith(b"HTTP/1.1 "):
            different[name] = said
    assert different == {}
    assert fast.pod.counters.ended == slow.pod.counters.ended
    assert fast.pod.counters.rejected == slow.pod.counters.rejected
    assert fast.pod.counters.rows_received == slow.pod.counters.rows_received
    assert fast.pod.counters.settled() == fast.pod.counters.received == slow.pod.counters.received
    assert fast.pod.admission.empty()
    assert fast.server.traffic.in_flight == 0


@pytest.mark.usefixtures("patient")
async def test_plain_calls_never_meet_aiohttp(paths: tuple[Texts, Texts]) -> None:
    fast, _ = paths
    before = by_aiohttp(FromTexts(fast))
    said = await converse(fast.url, Case((PLAIN, call([2, 5, 3]), call(["w1", LONG])), 3))
    assert (said.count(b"HTTP/1.1 200"), said.count(b"HTTP/1.1 400")) == (3, 1)
    assert by_aiohttp(FromTexts(fast)) == before + 1  # the farewell, which is a GET


@pytest.mark.usefixtures("patient")
async def test_a_length_of_its_json_is_nothing_to_a_call_for_embeddings(
    paths: tuple[Texts, Texts],
) -> None:
    fast, _ = paths
    before = by_aiohttp(FromTexts(fast))
    long = call(FIVE, f"{HEADER_LENGTH}: 2", user="a" * SMALL_BYTES)
    said = await converse(fast.url, Case(pieces(long, 2**16)))
    assert said.startswith(b"HTTP/1.1 200")
    assert by_aiohttp(FromTexts(fast)) == before + 2  # with the farewell


async def test_both_paths_reject_a_full_queue_in_openais_format(
    paths: tuple[Texts, Texts], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    for pod in paths:
        monkeypatch.setattr(type(pod.pod.admission.slots), "full", lambda _: True)
        said.append(VARYING.sub(b"~", await converse(pod.url, Case((PLAIN,)))))
        assert pod.pod.counters.rejected == {"QueueFull": 1}
    assert said[0] == said[1]
    assert said[0].startswith(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n")
    assert b'"type":"rate_limit_error"' in said[0]


async def test_a_dead_engine_ends_the_call_in_openais_format(
    paths: tuple[Texts, Texts], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    for pod in paths:
        assert pod.pod.texts is not None
        monkeypatch.setattr(pod.pod.texts, "vocabulary", 10**6)  # so that only the model refuses
        said.append(VARYING.sub(b"~", await converse(pod.url, Case((call([[9999]]), PLAIN), 2))))
        assert pod.pod.counters.ended[RequestOutcome.FAILED] == 1
    assert said[0] == said[1]
    assert said[0].startswith(b"HTTP/1.1 500 ")
    assert b'"type":"server_error"' in said[0]


class Shut:
    """Holds what a pod's tokeniser is given until it is opened."""

    def __init__(self, pod: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
        assert pod.pod.texts is not None
        self.pod, self.texts = pod, pod.pod.texts
        self.open = asyncio.Event()
        self.begun = 0
        self.left = 0
        self._encode = self.texts.encode
        monkeypatch.setattr(self.texts, "encode", self._held)

    async def _held(self, *given: Any, **more: Any) -> Any:
        self.begun += 1
        call = asyncio.Event()  # in place of what a call keeps
        self.kept = weakref.ref(call)
        try:
            await self.open.wait()
            return await self._encode(*given, **more)
        finally:
            self.left += 1


async def test_texts_that_are_being_tokenized_count_in_the_queue(
    paths: tuple[Texts, Texts], monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    bytes_call = post(json.dumps({"inputs": [words(FIVE)]}).encode(), path="/v2/models/texts/infer")
    for asked in (PLAIN, bytes_call):
        said = []
        for pod in paths:
            one_only = pod.pod.live.accepted.model_copy(update={"max_queue_depth": 1})
            monkeypatch.setattr(pod.pod.live, "accepted", one_only)
            shut = Shut(pod, monkeypatch)
            before = pod.pod.counters.rejected["QueueFull"]
            first, *others = (
                asyncio.create_task(converse(pod.url, Case((asked,)))) for _ in range(3)
            )
            await until(lambda b=before, p=pod: p.pod.counters.rejected["QueueFull"] == b + 2)
            said.append([VARYING.sub(b"~", await answer) for answer in others])
            assert shut.begun == 1
            shut.open.set()
            assert (await first).startswith(b"HTTP/1.1 200 ")
            assert pod.pod.admission.empty()
            monkeypatch.undo()
        assert said[0] == said[1]
        assert said[0][0].startswith(b"HTTP/1.1 429 ")


async def test_texts_without_a_priority_take_no_displacing_slot_of_a_full_queue(
    paths: tuple[Texts, Texts], monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    plain = {"inputs": [words(FIVE)]}
    urgent = {**plain, "parameters": {"priority": 1}}
    low, high = (
        post(json.dumps(wire).encode(), path="/v2/models/texts/infer") for wire in (plain, urgent)
    )
    for pod in paths:
        slots = pod.pod.admission.slots
        monkeypatch.setattr(type(slots), "full", lambda _: True)
        monkeypatch.setattr(
            slots, "_waiting_below", lambda of: int(priority_class(of) < LOWEST_CLASS)
        )
        limits = pod.pod.live.accepted.model_copy(update={"discipline": Discipline.PRIORITY})
        monkeypatch.setattr(pod.pod.live, "accepted", limits)
        for plain_call, urgent_call in ((PLAIN, call(FIVE, priority=1)), (low, high)):
            shut = Shut(pod, monkeypatch)
            assert b" 429 " in await converse(pod.url, Case((plain_call,)))
            assert shut.begun == 0
            displacing = asyncio.create_task(converse(pod.url, Case((urgent_call,))))
            await until(lambda s=shut: s.begun == 1)
            assert slots._displacing == 1
            shut.open.set()
            assert b" 429 " not in await displacing


async def test_the_texts_of_a_client_that_leaves_are_released(
    paths: tuple[Texts, Texts], monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    for pod in paths:
        shut = Shut(pod, monkeypatch)
        _, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
        writer.write(PLAIN)
        await until(lambda s=shut: s.begun == 1)
        assert not pod.pod.admission.empty()
        writer.close()
        await until(lambda s=shut: s.left == 1)
        await until(pod.pod.admission.empty)
        assert pod.pod.counters.ended[RequestOutcome.CANCELLED] == pod.pod.counters.settled() == 1


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_client_that_leaves_while_its_texts_are_tokenized(
    paths: tuple[Texts, Texts], monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    fast, _ = paths
    shut = Shut(fast, monkeypatch)
    _, writer = await asyncio.open_connection("127.0.0.1", int(fast.url.rsplit(":", 1)[1]))
    writer.write(PLAIN)
    await until(lambda: shut.begun == 1)
    writer.close()
    await until(lambda: shut.left == 1)
    await until(lambda: shut.kept() is None, 5.0)


async def test_a_client_that_goes_at_once_leaves_nothing_behind(
    paths: tuple[Texts, Texts], until: Any
) -> None:
    for pod in paths:
        _, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
        writer.write(PLAIN)
        writer.transport.abort()
        counters = pod.pod.counters
        await until(lambda c=counters: c.settled() == 1)
        assert counters.received == counters.ended[RequestOutcome.CANCELLED] == 1
        assert pod.pod.admission.empty()


class FromTexts:
    """A pod of `test_texts` as `test_fast_path` has them."""

    def __init__(self, texts: Texts) -> None:
        self.client = texts.server
