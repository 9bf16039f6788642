"""Texts in binary tensors: as `tritonclient` sends them, and malformed ones, on both paths."""

import json
from typing import Any

import numpy as np
import pytest
from tritonclient import http as triton

from penstock_api.pod_contract import MAX_BATCH_SIZE
from penstock_runtime.protocols.open_inference.bodies import HEADER_LENGTH
from tests.unit.runtime.protocols.open_inference.test_texts import (
    FIVE,
    Texts,
    on_path,
    root,
    short_start,
    words,
)

__all__ = ["on_path", "root", "short_start"]


async def test_tritonclient_sends_texts_in_binary(on_path: Texts) -> None:
    array = np.array([FIVE, "w9 w9 ü"], np.object_)
    asked = triton.InferInput("text", [2], "BYTES")
    asked.set_data_from_numpy(array)
    body, length = triton.InferenceServerClient.generate_request_body([asked])
    headers = {"Inference-Header-Content-Length": str(length)}
    async with on_path.session.post(
        f"{on_path.url}/v2/models/texts/infer", data=body, headers=headers
    ) as reply:
        answer, status = await reply.read(), reply.status
        size = int(reply.headers["Inference-Header-Content-Length"])
    assert status == 200
    result = triton.InferenceServerClient.parse_response_body(answer, header_length=size)
    assert result.as_numpy("embedding").shape == (2, 32)


def in_binary(packed: bytes, rows: int, **more: Any) -> dict[str, Any]:
    """Return the arguments of a POST with texts in binary, as `packed`."""
    tensor = {"name": "text", "datatype": "BYTES", "shape": [rows], **more}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(packed)}}]})
    return {"data": head.encode() + packed, "headers": {HEADER_LENGTH: str(len(head))}}


async def test_binary_texts_are_read_up_to_the_limit_of_rows(on_path: Texts) -> None:
    url = f"{on_path.url}/v2/models/texts/infer"
    packed = bytes(4) * MAX_BATCH_SIZE + b"cut"  # read further, it would be another fault
    async with on_path.session.post(url, **in_binary(packed, MAX_BATCH_SIZE)) as reply:
        answer = await reply.json()
    assert reply.status == 400
    assert f"more than {MAX_BATCH_SIZE} texts" in answer["error"]


@pytest.mark.parametrize(
    ("packed", "rows", "more"),
    [
        (b"\x01\0\0\0a\0\0", 2, {}),
        (b"\x01\0\0\0a\0\0\0\0\0", 3, {}),
        (b"\x02\0\0\0a", 1, {}),
        (b"\x01\0\0\0a", 1, {"data": ["a"]}),
        (b"", 1, {"data": ["a"]}),
    ],
)
async def test_malformed_binary_texts_name_their_size(
    on_path: Texts, packed: bytes, rows: int, more: dict[str, Any]
) -> None:
    url = f"{on_path.url}/v2/models/texts/infer"
    async with on_path.session.post(url, **in_binary(packed, rows, **more)) as reply:
        answer = await reply.json()
    field = "inputs[0].parameters.binary_data_size"
    assert (reply.status, answer["field"]) == (400, field)


async def test_bytes_behind_texts_in_json_are_rejected(on_path: Texts) -> None:
    head = json.dumps({"inputs": [words("a")]}).encode()
    more: dict[str, Any] = {"data": head + b"\x01", "headers": {HEADER_LENGTH: str(len(head))}}
    async with on_path.session.post(f"{on_path.url}/v2/models/texts/infer", **more) as reply:
        assert reply.status == 400
        assert "both `data` and binary data" in (await reply.json())["error"]
