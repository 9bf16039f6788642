"""Requests of the load generator, each with the numbers of a correct answer."""

import importlib.util
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from tests.bench.http.plan import PEERS, Contender

NUMBER: Final = 64
"""Number of distinct bodies, so that no server can answer from a cache."""
Floats = npt.NDArray[np.float32]


def write(contender: Contender, port: int, folder: Path) -> Path:
    """Return a file of requests for `contender`, in the format of `load.c`."""
    file = folder / f"bodies-{port}"
    with file.open("wb") as stream:
        for row, wanted in samples():
            request, kind, marker = request_of(contender, row)
            stream.write(struct.pack("<I", len(request)) + request)
            stream.write(struct.pack("<I", len(wanted)) + wanted.astype("<f4").tobytes())
            stream.write(struct.pack("<II", kind, len(marker)) + marker)
    return file


def samples() -> Iterator[tuple[list[float], Floats]]:
    """Yield rows and the network's outputs for them."""
    model, draw = network(), random.Random(1)  # noqa: S311 - inputs of a bench
    for _ in range(NUMBER):
        row = [round(draw.uniform(-1, 1), 4) for _ in range(64)]
        with torch.inference_mode():
            yield row, model(torch.tensor([row])).numpy()[0]


def network() -> torch.nn.Module:
    """Return the network of the peers' folder."""
    spec = importlib.util.spec_from_file_location("tiny_mlp", PEERS / "tiny_mlp.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built: torch.nn.Module = module.network()
    return built


def request_of(contender: Contender, row: list[float]) -> tuple[bytes, int, bytes]:
    """Return a request for `contender`, and the kind and marker of its answer in the format of `load.c`."""
    headers = ""
    tensor: dict[str, object] = {"name": "X", "datatype": "FP32", "shape": [1, 64]}
    match contender.body:
        case "json":
            body = _compact({"inputs": [{**tensor, "data": row}]})
        case "bento":
            body = _compact({"data": [row]})
        case _:
            tensor["parameters"] = {"binary_data_size": 256}
            head = _compact({"inputs": [tensor], "parameters": {"binary_data_output": True}})
            body = head + np.array(row, "<f4").tobytes()
            headers = f"Inference-Header-Content-Length: {len(head)}\r\n"
    headers += contender.headers
    start = (
        f"POST {contender.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    marker = {"json": b'"data":'}.get(contender.body, b"")
    return start.encode() + body, int(contender.body == "binary"), marker


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
