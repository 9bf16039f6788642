"""Compressed bodies in every form that clients send."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader
from aiohttp.test_utils import make_mocked_request

from penstock_runtime.errors import BrokenBody
from penstock_runtime.protocols.open_inference import bodies
from penstock_runtime.protocols.open_inference.decompression import MAX_MEMBERS, Inflater
from tests.unit.runtime.protocols.open_inference.test_bad_requests import good


def in_two_members(data: bytes) -> bytes:
    return gzip.compress(data[:40]) + gzip.compress(data[40:])


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("gzip", in_two_members),
        ("GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
    ],
)
async def test_a_compressed_body_is_read_whole_in_one_piece_or_byte_by_byte(
    pod: Any, coding: str, compress: Callable[[bytes], bytes]
) -> None:
    url = f"{pod.url}/v2/models/halves/infer"
    data = compress(json.dumps(good()).encode() + b" " * 600_000)

    async def bit_by_bit() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 50):
            yield data[at : at + 50]

    for sent in (data, bit_by_bit()):
        async with pod.session.post(url, data=sent, headers={"Content-Encoding": coding}) as reply:
            assert reply.status == 200, await reply.text()


def test_each_step_of_a_decompression_gives_back_control() -> None:
    """Blocks and members without content cost time too."""
    blocks = b"\x00\x00\x00\xff\xff" * 2**16
    members = gzip.compress(b"") * MAX_MEMBERS["gzip"]
    for coding, data, steps in (("deflate", blocks, 20), ("gzip", members, MAX_MEMBERS["gzip"])):
        pieces = list(Inflater(coding).feed(data))
        assert not any(pieces)
        assert len(pieces) >= steps


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("deflate", b"\x03\x00" * 2),
        ("deflate", zlib.compress(b"") + b"{}"),
        ("gzip", gzip.compress(b"") * (MAX_MEMBERS["gzip"] + 1)),
    ],
)
def test_a_body_has_no_more_members_than_its_coding_may_have(coding: str, data: bytes) -> None:
    with pytest.raises(zlib.error, match=f"more {coding} members than {MAX_MEMBERS[coding]}"):
        list(Inflater(coding).feed(data))


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_body_of_empty_members_is_rejected(pod: Any, coding: str) -> None:
    member = {"gzip": gzip.compress(b""), "deflate": b"\x03\x00"}[coding]
    url, headers = f"{pod.url}/v2/models/halves/infer", {"Content-Encoding": coding}
    async with pod.session.post(url, data=member * 40_000, headers=headers) as reply:
        assert reply.status == 400
        assert "members than" in (await reply.json())["error"]


@pytest.mark.parametrize(("seconds", "least", "most"), [(0.0, 20, 21), (1000.0, 0, 0)])
async def test_a_body_without_content_lets_others_have_a_turn_after_some_work(
    monkeypatch: pytest.MonkeyPatch, seconds: float, least: int, most: int
) -> None:
    """Not after every step: on a busy event loop each turn takes a while, and a body has thousands of steps."""
    monkeypatch.setattr(bodies, "TURN_SECONDS", seconds)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    data = b"\x00\x00\x00\xff\xff" * 2**16
    arrived = StreamReader(Mock(), 2**20, loop=asyncio.get_running_loop())
    arrived.feed_data(data)
    arrived.feed_eof()
    headers = {"Content-Encoding": "deflate"}
    request = make_mocked_request("POST", "/", headers, payload=arrived)
    counting = asyncio.create_task(count())
    with pytest.raises(BrokenBody, match="ends before its trailer"):
        await bodies.read(request, 2**20, 60.0, lambda _: None)
    counting.cancel()
    assert least <= turns <= most
