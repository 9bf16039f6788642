"""Unmodified `tritonclient[http]` as the reference client of the Open Inference protocol."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

ROWS = np.arange(24, dtype=np.float32).reshape(3, 8)


@pytest.fixture
def client(shared_runtime: Any) -> Iterator[Any]:
    with triton.InferenceServerClient(
        shared_runtime.client.removeprefix("http://"), concurrency=4
    ) as connected:
        yield connected


def given(*, binary: bool, rows: Any = ROWS) -> list[Any]:
    tensor = triton.InferInput("INPUT", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(rows, binary_data=binary)
    return [tensor]


def wanted(*, binary: bool) -> list[Any]:
    return [triton.InferRequestedOutput("OUTPUT", binary_data=binary)]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_inference_in_json_and_binary(
    client: Any, binary_in: bool, binary_out: bool | None
) -> None:
    outputs = None if binary_out is None else wanted(binary=binary_out)
    result = client.infer(
        "demo", given(binary=binary_in), outputs=outputs, request_id="7", priority=1, timeout=10**7
    )
    assert np.array_equal(result.as_numpy("OUTPUT"), 2 * ROWS + 1)
    assert result.get_response()["id"] == "7"
    assert result.get_response()["model_version"] == "1"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compression_both_ways(client: Any, coding: str) -> None:
    result = client.infer(
        "demo",
        given(binary=True),
        model_version="1",
        request_compression_algorithm=coding,
        response_compression_algorithm=coding,
    )
    assert np.array_equal(result.as_numpy("OUTPUT"), 2 * ROWS + 1)


def test_numbers_that_json_lacks(client: Any) -> None:
    strange = np.array([[np.nan, np.inf, -np.inf, 1, 2, 3, 4, 5]], dtype=np.float32)
    result = client.infer(
        "demo", given(binary=True, rows=strange), outputs=wanted(binary=True)
    ).as_numpy("OUTPUT")
    in_json = client.infer(
        "demo", given(binary=False, rows=strange), outputs=wanted(binary=False)
    ).as_numpy("OUTPUT")
    assert np.array_equal(result, in_json, equal_nan=True)


def test_asynchronous_requests(client: Any) -> None:
    requests = [client.async_infer("demo", given(binary=True)) for _ in range(8)]
    for request in requests:
        assert np.array_equal(request.get_result().as_numpy("OUTPUT"), 2 * ROWS + 1)


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("demo")
    assert client.is_model_ready("demo", "1")
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["name"] == "penstock"
    assert client.get_model_metadata("demo")["platform"] == "penstock_emulated_accelerator"
    assert client.get_model_config("demo")["input"][0]["dims"] == [8]
    assert client.get_model_repository_index()[0]["state"] == "READY"


def test_clients_control_nothing(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="InferencePool") as info:
        client.load_model("demo")
    assert info.value.status() == "503"
    with pytest.raises(InferenceServerException, match="not allowed"):
        client.unload_model("demo")


def test_errors_reach_the_client_with_their_message(client: Any) -> None:
    wide = np.zeros((1, 9), dtype=np.float32)
    with pytest.raises(
        InferenceServerException, match=r"has shape \[1, 9\]: send \[-1, 8\]"
    ) as info:
        client.infer("demo", given(binary=True, rows=wide))
    assert info.value.status() == "400"
    with pytest.raises(InferenceServerException, match="'other' is not served here") as info:
        client.infer("other", given(binary=True))
    assert info.value.status() == "404"
