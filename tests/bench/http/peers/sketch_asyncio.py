"""A raw asyncio protocol with a batcher: the floor for a Python server. Checks nothing, handles nothing odd.

`PORT uvloop` runs it on uvloop, as our pod runs; `PORT` alone on asyncio's own loop.
"""

import asyncio
import sys

import orjson
import torch
import uvloop
from tiny_mlp import network

MODEL = network()
MAX_BATCH = 64


class Sketch(asyncio.Protocol):
    """One request at a time a connection, each in one piece."""

    waiting: list[tuple[asyncio.Transport, list[float]]] = []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        body = data[data.index(b"\r\n\r\n") + 4 :]
        row = orjson.loads(body)["inputs"][0]["data"]
        if not Sketch.waiting:
            asyncio.get_running_loop().call_soon(flush)
        Sketch.waiting.append((self.transport, row))


def flush():
    batch, Sketch.waiting = Sketch.waiting[:MAX_BATCH], Sketch.waiting[MAX_BATCH:]
    with torch.inference_mode():
        rows = MODEL(torch.tensor([row for _, row in batch])).tolist()
    for (transport, _), row in zip(batch, rows):
        tensor = {"name": "Y", "datatype": "FP32", "shape": [1, 16], "data": row}
        body = orjson.dumps({"model_name": "mlp", "model_version": "1", "outputs": [tensor]})
        transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
    if Sketch.waiting:
        asyncio.get_running_loop().call_soon(flush)


async def main(port):
    server = await asyncio.get_running_loop().create_server(Sketch, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    run = uvloop.run if sys.argv[2:] == ["uvloop"] else asyncio.run
    run(main(int(sys.argv[1])))
