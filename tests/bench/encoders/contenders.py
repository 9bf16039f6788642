"""Who serves the models: ours and peers, with the bodies that each is sent and what each must answer."""

import json
import struct
from pathlib import Path
from typing import Final

import numpy as np

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


def contenders(subject: Subject, root: Path) -> list[Contender]:
    """Return the servers of one subject."""
    body = "tokens" if subject is ENCODER else "text"
    ours = OURS | {"PENSTOCK_MODEL_FOLDER": str(root), "PENSTOCK_MODEL": _spec(subject)}
    path = f"/v2/models/{subject.name}/infer" if body == "tokens" else "/v1/embeddings"
    found = [Contender("penstock", RUNTIME, path=path, body=body, environment=ours, quick=True)]
    if body == "tokens":
        found.append(Contender("penstock, binary", RUNTIME, path=path, body="binary", environment=ours, quick=True))  # fmt: skip
    for name, package, script, where in (
        ("Mosec", "mosec==0.9.8", "serve_mosec_text.py", "/inference"),
        ("LitServe", "litserve==0.2.19", "serve_litserve_text.py", "/predict"),
    ):
        for wait in (1, 10):
            environment = {
                "BENCH_WAIT_MS": str(wait),
                "BENCH_PORT": "{port}",
                "BENCH_MODEL": str(root / subject.name),
            }
            found.append(
                Contender(
                    f"{name}, {wait} ms",
                    ("{python}", script),
                    package,
                    where,
                    body,
                    environment,
                    quick=name == "Mosec",
                )
            )
    return found


def _spec(subject: Subject) -> str:
    claim = {"claimName": "bench", "path": subject.name}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    return json.dumps({"name": subject.name, "task": "Embedding", "source": source})


def write(subject: Subject, contender: Contender, folder: Path, file: Path) -> Path:
    """Write the requests for `contender` into `file`, in the format of `load.c`, and return it.

    Every answer is checked against what the untouched model says of the row alone.
    """
    run = _transformers(folder, prepacked=False)
    with file.open("wb") as stream:
        for at, (text, row) in enumerate(zip(subject.texts(), subject.rows(), strict=True)):
            wanted = np.asarray(run(subject.inputs([at])))[0].astype("<f4")
            request, kind, marker = _request(contender, text, row)
            stream.write(struct.pack("<I", len(request)) + request)
            stream.write(struct.pack("<I", len(wanted)) + wanted.tobytes())
            stream.write(struct.pack("<II", kind, len(marker)) + marker)
    assert at == NUMBER - 1
    return file


def _request(contender: Contender, text: str, row: list[int]) -> tuple[bytes, int, bytes]:
    headers, kind = "", 0
    marker = b'"embedding":[' if contender.body == "text" else b'"data":'
    if contender.body == "text":
        body = json.dumps({"input": text}).encode()
    elif contender.body == "tokens":
        body = json.dumps({"inputs": _tensors(row)}, separators=(",", ":")).encode()
    else:
        head = json.dumps({"inputs": _sizes(row), "parameters": {"binary_data_output": True}})
        headers = f"Inference-Header-Content-Length: {len(head)}\r\n"
        arrays = (np.array(row, "<i8"), np.ones(len(row), "<i8"))
        body = head.encode() + b"".join(one.tobytes() for one in arrays)
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
