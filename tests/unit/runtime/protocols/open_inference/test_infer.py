"""Inference over HTTP: what goes in comes out halved, in JSON or binary, under the right name."""

import asyncio
import gzip
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock_api.names import BATCH_PRIORITY

Call = Callable[..., dict[str, Any]]
HEADER = "Inference-Header-Content-Length"
pytestmark = pytest.mark.parametrize("fast_path", [True, False], ids=["fast", "aiohttp"])


async def test_json_goes_in_and_out(pod: Any, call: Call) -> None:
    async with await pod.infer(call(rows=2, value=3.0, id="mine")) as reply:
        answer = await reply.json()
    assert reply.status == 200
    assert answer == {
        "model_name": "halves",
        "model_version": "1",
        "id": "mine",
        "outputs": [
            {"name": "Y", "datatype": "FP32", "shape": [2, 3], "data": [1.5] * 6},
            {"name": "N", "datatype": "INT64", "shape": [2, 1], "data": [2, 2]},
        ],
    }
    assert reply.headers["X-Penstock-Pod"] == "pool-0"
    assert float(reply.headers["X-Penstock-Queue-Seconds"]) >= 0


async def test_nested_data_and_any_order_of_inputs_are_understood(pod: Any) -> None:
    body = {
        "inputs": [
            {"name": "K", "datatype": "INT64", "shape": [2, 2], "data": [[1, 2], [3, 4]]},
            {"name": "X", "datatype": "FP32", "shape": [2, 3], "data": [[1, 2, 3], [4.5, 5, 6]]},
        ]
    }
    async with await pod.infer(body) as reply:
        outputs = (await reply.json())["outputs"]
    assert outputs[0]["data"] == [0.5, 1, 1.5, 2.25, 2.5, 3]
    assert outputs[1]["data"] == [3, 7]


async def test_binary_tensors_go_in_and_out(pod: Any, call: Call) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    k = np.array([[2**40, 1], [-5, 2]], dtype=np.int64)
    body = call(rows=2, parameters={"binary_data_output": True})
    for tensor, size in zip(body["inputs"], (x.nbytes, k.nbytes), strict=True):
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": size}
    head = json.dumps(body).encode()
    async with pod.session.post(
        f"{pod.url}/v2/models/halves/versions/1/infer",
        data=head + x.tobytes() + k.tobytes(),
        headers={HEADER: str(len(head))},
    ) as reply:
        raw = await reply.read()
    length = int(reply.headers[HEADER])
    outputs = json.loads(raw[:length])["outputs"]
    assert [output["parameters"]["binary_data_size"] for output in outputs] == [24, 16]
    assert np.array_equal(np.frombuffer(raw[length : length + 24], "<f4").reshape(2, 3), x / 2)
    assert struct.unpack("<qq", raw[length + 24 :]) == (2**40 + 1, -3)
    assert reply.content_type == "application/octet-stream"


async def test_only_requested_outputs_are_returned_each_in_its_form(pod: Any, call: Call) -> None:
    wanted = [{"name": "N"}, {"name": "Y", "parameters": {"binary_data": True}}]
    async with await pod.infer(call(outputs=wanted)) as reply:
        raw, length = await reply.read(), int(reply.headers[HEADER])
    outputs = json.loads(raw[:length])["outputs"]
    assert [output["name"] for output in outputs] == ["N", "Y"]
    assert outputs[0]["data"] == [2]
    assert "data" not in outputs[1]
    assert len(raw) - length == 12


async def test_numbers_that_json_lacks_are_written_and_read_as_triton_does(pod: Any) -> None:
    data = "[NaN, Infinity, -Infinity]"
    body = (
        '{"inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 3], "data": ' + data + "},"
        '{"name": "K", "datatype": "INT64", "shape": [1, 1], "data": [1]}], "outputs": [{"name": "Y"}]}'
    )
    async with pod.session.post(f"{pod.url}/v2/models/halves/infer", data=body) as reply:
        text = await reply.text()
    assert reply.status == 200
    assert f'"data":{data}' in text


@pytest.mark.parametrize(
    ("coding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
async def test_compressed_bodies_are_read_and_written_when_one_coding_is_named(
    pod: Any, call: Call, coding: str, compress: Callable[[bytes], bytes]
) -> None:
    body = compress(json.dumps(call(value=5.0)).encode())
    headers = {"Content-Encoding": coding, "Accept-Encoding": coding}
    async with pod.session.post(
        f"{pod.url}/v2/models/halves/infer", data=body, headers=headers
    ) as reply:
        answer = await reply.json()
    assert reply.headers["Content-Encoding"] == coding
    assert answer["outputs"][0]["data"] == [2.5, 2.5, 2.5]


async def test_a_list_of_codings_is_a_permission_that_is_not_taken(pod: Any, call: Call) -> None:
    async with await pod.infer(call(), headers={"Accept-Encoding": "gzip, deflate"}) as reply:
        assert "Content-Encoding" not in reply.headers


async def test_the_request_id_of_the_client_comes_back_and_a_strange_one_does_not(
    pod: Any, call: Call
) -> None:
    async with await pod.infer(call(), headers={"X-Request-Id": "abc-1"}) as reply:
        assert reply.headers["X-Request-Id"] == "abc-1"
    async with await pod.infer(call(), headers={"X-Request-Id": "a b"}) as reply:
        assert len(reply.headers["X-Request-Id"]) == 32


async def test_an_error_of_the_model_is_500_and_the_next_request_is_served(
    pod: Any, call: Call
) -> None:
    async with await pod.infer(call(value=666)) as reply:
        assert reply.status == 500
        assert "666 cannot be halved" in (await reply.json())["error"]
    async with await pod.infer(call()) as reply:
        assert reply.status == 200


async def test_batch_work_that_waits_is_no_demand(pod: Any, call: Call, until: Any) -> None:
    pod.model.gate.clear()
    line = call(parameters={"priority": BATCH_PRIORITY})
    sent = [asyncio.create_task(pod.infer(call()))]
    await until(lambda: pod.pod.admission.load().running == 1)
    sent += [asyncio.create_task(pod.infer(line)) for _ in range(2)]
    await until(lambda: pod.pod.admission.waiting() == 2)
    assert pod.pod.admission.load().model_dump() == {"waiting": 0, "running": 1}
    sent.append(asyncio.create_task(pod.infer(call())))
    await until(lambda: pod.pod.admission.waiting() == 3)
    assert pod.pod.admission.load().waiting == 1
    pod.model.gate.set()
    assert [(await each).status for each in sent] == [200] * 4
    counters = pod.pod.counters
    assert (counters.interactive.served, counters.batch.served) == (2, 2)


@pytest.mark.parametrize("how", ["parameter", "header"])
async def test_a_deadline_that_passes_while_waiting_is_504(
    pod: Any, call: Call, until: Any, how: str
) -> None:
    pod.model.gate.clear()
    first = asyncio.create_task(pod.infer(call()))
    await until(lambda: pod.pod.admission.load().running == 1)
    pod.clock.stop()
    body = call(parameters={"timeout": 9_000_000}) if how == "parameter" else call()
    headers = {} if how == "parameter" else {"X-Request-Timeout-Ms": "9000"}
    late = asyncio.create_task(pod.infer(body, headers=headers))
    await until(lambda: pod.pod.admission.load().waiting == 1)
    pod.clock.move(9.1)
    pod.model.gate.set()
    assert (await first).status == 200
    reply = await late
    assert reply.status == 504
    assert (await reply.json())["field"] == "parameters.timeout"


async def test_metadata_has_the_inputs_and_outputs_of_the_model(pod: Any) -> None:
    async with pod.session.get(f"{pod.url}/v2") as reply:
        assert (await reply.json())["name"] == "penstock"
    async with pod.session.get(f"{pod.url}/v2/models/halves/versions/1") as reply:
        answer = await reply.json()
    assert answer["versions"] == ["1"]
    assert answer["inputs"][1] == {"name": "K", "datatype": "INT64", "shape": [-1, -1]}
    async with pod.session.get(f"{pod.url}/v2/models/halves/config") as reply:
        assert (await reply.json())["max_batch_size"] == 8
    async with pod.session.post(f"{pod.url}/v2/repository/index") as reply:
        assert (await reply.json())[0]["state"] == "READY"
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/halves/ready"):
        async with pod.session.get(pod.url + path) as reply:
            assert reply.status == 200


async def test_clients_control_nothing(pod: Any) -> None:
    for verb in ("load", "unload"):
        url = f"{pod.url}/v2/repository/models/halves/{verb}"
        async with pod.session.post(url) as reply:
            assert reply.status == 503
            assert "InferencePool default/pool" in (await reply.json())["error"]
