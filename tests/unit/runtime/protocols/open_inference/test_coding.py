"""Compressed bodies in every form that clients send."""

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

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
