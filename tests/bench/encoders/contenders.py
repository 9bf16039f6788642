"""Servers of the encoder bench, Penstock and its peers, with their request bodies and expected answers."""

import json
import struct
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock_runtime.models.encoders.directory import IDS, MASK
from tests.bench.encoders.raw import _transformers
from tests.bench.encoders.subjects import ENCODER, NUMBER, Subject
from tests.bench.http.plan import RUNTIME, Contender

OURS: Final = {
    "PENSTOCK_HOST": "127.0.0.1",
    "PENSTOCK_CLIENT_PORT": "{port}",
    "PENSTOCK_CLUSTER_PORT": "0",
    "PENSTOCK_LOG_LEVEL": "WARNING",
}

PYTRITON: Final = "nvidia-pytriton==0.7.0"
INFINITY: Final = "infinity-emb[server]==0.0.78 sentence-transformers==3.4.1"


def contenders(subject: Subject, root: Path) -> list[Contender]:
    """Return the servers of one subject."""
    return [*_ours(subject, root), *_peers(subject, root)]


def _ours(subject: Subject, root: Path) -> list[Contender]:
    ours = OURS | {"PENSTOCK_MODEL_FOLDER": str(root), "PENSTOCK_MODEL": _spec(subject)}
    if subject is not ENCODER:
        return [Contender("penstock", RUNTIME, path="/v1/embeddings", body="text", environment=ours, decisive=True)]  # fmt: skip
    path = f"/v2/models/{subject.name}/infer"
    return [
        Contender(name, RUNTIME, path=path, body=body, environment=ours, decisive=True)
        for name, body in (("penstock", "tokens"), ("penstock, binary", "binary"))
    ]


def _peers(subject: Subject, root: Path) -> list[Contender]:
    """Return each peer with the settings that can be its best; Triton reads texts as tensors, Infinity reads only texts."""
    body = "tokens" if subject is ENCODER else "text"
    tensors = "tokens" if subject is ENCODER else "texts"

    def peer(name: str, package: str, script: str, path: str, speaks: str = body) -> Contender:
        wait = name.rpartition(", ")[2].removesuffix(" ms")
        environment = {
            "BENCH_WAIT_MS": wait if wait.isdecimal() else "0",
            "BENCH_PORT": "{port}",
            "BENCH_MODEL": str(root / subject.name),
            "BENCH_BODY": speaks,
        }
        argv = ("{python}", script)
        return Contender(name, argv, package, path, speaks, environment, decisive="LitServe" not in name)  # fmt: skip

    triton = "/v2/models/texts/infer"
    peers = [
        peer("Mosec, 1 ms", "mosec==0.9.8", "serve_mosec_text.py", "/inference"),
        peer("Mosec, 10 ms", "mosec==0.9.8", "serve_mosec_text.py", "/inference"),
        peer("Triton (PyTriton), no wait", PYTRITON, "serve_pytriton_text.py", triton, tensors),
        peer("LitServe, 1 ms", "litserve==0.2.19", "serve_litserve_text.py", "/predict"),
        peer("LitServe, 10 ms", "litserve==0.2.19", "serve_litserve_text.py", "/predict"),
    ]
    if subject is ENCODER:
        peers.append(peer("Triton (PyTriton), no wait, binary", PYTRITON, "serve_pytriton_text.py", triton, "binary"))  # fmt: skip
    else:
        peers.append(peer("Infinity", INFINITY, "serve_infinity.py", "/embeddings"))
    return peers


def _spec(subject: Subject) -> str:
    claim = {"claimName": "bench", "path": subject.name}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    return json.dumps({"name": subject.name, "task": "Embedding", "source": source})


def write(subject: Subject, contender: Contender, folder: Path, file: Path) -> Path:
    """Write the requests for `contender` into `file`, in the format of `load.c`, and return it.

    Every answer is checked against that of the unmodified model for the row alone.
    """
    with file.open("wb") as stream:
        for text, row, wanted in zip(subject.texts(), subject.rows(), _answers(subject, folder), strict=True):  # fmt: skip
            request, kind, marker = _request(contender, text, row)
            stream.write(struct.pack("<I", len(request)) + request)
            stream.write(struct.pack("<I", len(wanted)) + wanted.tobytes())
            stream.write(struct.pack("<II", kind, len(marker)) + marker)
    return file


@cache
def _answers(subject: Subject, folder: Path) -> list[NDArray[np.float32]]:
    run = _transformers(folder, prepacked=False)
    return [np.asarray(run(subject.inputs([at])))[0].astype("<f4") for at in range(NUMBER)]


def _request(contender: Contender, text: str, row: list[int]) -> tuple[bytes, int, bytes]:
    headers, kind = "", 0
    marker = b'"embedding":[' if contender.body == "text" else b'"data":'
    if contender.body == "text":
        body = json.dumps({"input": text}).encode()
    elif contender.body == "tokens":
        body = json.dumps({"inputs": _tensors(row)}, separators=(",", ":")).encode()
    elif contender.body == "texts":
        tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
        body = json.dumps({"inputs": [tensor]}, separators=(",", ":")).encode()
    else:
        head = json.dumps({"inputs": _sizes(row), "parameters": {"binary_data_output": True}})
        headers = f"Inference-Header-Content-Length: {len(head)}\r\n"
        arrays = (np.array(row, "<i8"), np.ones(len(row), "<i8"))
        body = head.encode() + b"".join(array.tobytes() for array in arrays)
        kind, marker = 1, b""
    start = (
        f"POST {contender.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"{headers}{contender.headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return start.encode() + body, kind, marker


def _tensors(row: list[int]) -> list[dict[str, object]]:
    return [
        {"name": name, "datatype": "INT64", "shape": [1, len(row)], "data": data}
        for name, data in ((IDS, row), (MASK, [1] * len(row)))
    ]


def _sizes(row: list[int]) -> list[dict[str, object]]:
    size = {"binary_data_size": 8 * len(row)}
    shape = [1, len(row)]
    return [
        {"name": name, "datatype": "INT64", "shape": shape, "parameters": size}
        for name in (IDS, MASK)
    ]
