"""Rows of tokens that no encoder accepts are rejected before the queue on either path, without an effect on other requests."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock_runtime.engine.dynamic import warm_up
from penstock_runtime.models.device import memory
from penstock_runtime.models.encoders.directory import IDS, MASK
from tests.support.encoders.directories import write
from tests.unit.runtime.protocols.open_inference.test_texts import Texts, serve

Row = list[int]
LONG: Row = [2, *range(5, 13), 3]
FAULTS: dict[str, tuple[Row, Row, str, str]] = {
    "a mask longer than its ids": ([2, 5, 6, 7, 3], [1] * 7, MASK, "shape"),
    "a mask shorter than its ids": ([2, 5, 6, 7, 3], [1] * 4, MASK, "shape"),
    "an id beyond the vocabulary": ([2, 5, 1005, 3], [1] * 4, IDS, "data"),
    "a negative id": ([2, -1, 3], [1] * 3, IDS, "data"),
    "a mask of zeros": ([2, 5, 3], [0] * 3, MASK, "data"),
}


@pytest.fixture(params=[True, False], ids=["fast-path", "aiohttp"])
async def encoder(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Texts]:
    monkeypatch.setattr(warm_up, "WARM_UP_SECONDS", 0.02)
    monkeypatch.setattr(memory, "MEASURING_SECONDS", 0.02)
    write(tmp_path / "Embedding")
    texts = await serve(tmp_path, "Embedding", tmp_path, fast_path=request.param)
    yield texts
    await texts.close()


def as_json(ids: Row, mask: Row, names: tuple[str, ...] = (IDS, MASK)) -> tuple[bytes, int]:
    """Return a body of one row with its tensors in the order of `names`, and the length of its JSON."""
    data = {IDS: ids, MASK: mask}
    inputs = [
        {"name": tensor, "datatype": "INT64", "shape": [1, len(data[tensor])], "data": data[tensor]}
        for tensor in names
    ]
    body = json.dumps({"inputs": inputs}).encode()
    return body, len(body)


def nested(ids: Row, mask: Row) -> tuple[bytes, int]:
    """Write the rows as JSON that only the complete reader accepts."""
    body = json.loads(as_json(ids, mask)[0])
    for tensor in body["inputs"]:
        tensor["data"] = [tensor["data"]]
    data = json.dumps(body).encode()
    return data, len(data)


def swapped(ids: Row, mask: Row) -> tuple[bytes, int]:
    """Write the rows as JSON with the mask first."""
    return as_json(ids, mask, (MASK, IDS))


def binary(ids: Row, mask: Row) -> tuple[bytes, int]:
    """Write the rows as binary tensors after the JSON."""
    inputs = [
        {
            "name": name,
            "datatype": "INT64",
            "shape": [1, len(data)],
            "parameters": {"binary_data_size": 8 * len(data)},
        }
        for name, data in ((IDS, ids), (MASK, mask))
    ]
    head = json.dumps({"inputs": inputs}).encode()
    return head + np.array([*ids, *mask], "<i8").tobytes(), len(head)


async def asked(encoder: Texts, body: tuple[bytes, int]) -> tuple[int, Any]:
    headers = {"Inference-Header-Content-Length": str(body[1])} if body[1] != len(body[0]) else {}
    url = f"{encoder.url}/v2/models/texts/infer"
    async with encoder.session.post(url, data=body[0], headers=headers) as reply:
        return reply.status, await reply.json()


@pytest.mark.parametrize("spelt", [as_json, nested, swapped, binary])
async def test_an_invalid_row_is_rejected_alone_and_among_valid_ones(
    encoder: Texts, spelt: Any
) -> None:
    status, alone = await asked(encoder, spelt(LONG, [1] * len(LONG)))
    assert status == 200
    for name, (ids, mask, tensor, place) in FAULTS.items():
        place_of = (MASK, IDS) if spelt is swapped else (IDS, MASK)
        lonely = await asked(encoder, spelt(ids, mask))
        *mates, accompanied = await asyncio.gather(
            *(asked(encoder, spelt(LONG, [1] * len(LONG))) for _ in range(3)),
            asked(encoder, spelt(ids, mask)),
        )
        for answered, answer in (lonely, accompanied):
            field = f"inputs[{place_of.index(tensor)}].{place}"
            assert (answered, answer["field"]) == (400, field), (name, answer)
            assert tensor in answer["error"]
        for answered, answer in mates:
            assert answered == 200
            assert answer["outputs"][0]["data"] == pytest.approx(alone["outputs"][0]["data"])
    assert encoder.pod.counters.rejected == {"BadInput": 2 * len(FAULTS)}


async def test_a_body_is_judged_by_its_own_numbers_under_a_head_seen_before(encoder: Texts) -> None:
    for ids, wanted in (([2, 5, 3], 200), ([2, 5, 3], 200), ([2, 1005, 3], 400), ([2, 6, 3], 200)):
        assert (await asked(encoder, binary(ids, [1] * 3)))[0] == wanted
