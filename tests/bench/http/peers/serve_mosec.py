"""Mosec: Rust in front, one worker, orjson. Arguments: port, most milliseconds to wait."""

import os
import sys

import orjson
import torch
from mosec import Server, Worker
from tiny_mlp import network

WAIT = int(os.environ["BENCH_WAIT_MS"])


class Tiny(Worker):
    """The network, batch by batch."""

    def __init__(self):
        torch.set_num_threads(1)
        self.model = network()

    def deserialize(self, data):
        return orjson.loads(data)["inputs"][0]["data"]

    def serialize(self, data):
        return orjson.dumps({"outputs": [{"name": "Y", "datatype": "FP32", "shape": [1, 16], "data": data}]})

    def forward(self, data):
        with torch.inference_mode():
            return self.model(torch.tensor(data)).tolist()


if __name__ == "__main__":
    port = os.environ["BENCH_PORT"]
    sys.argv = [sys.argv[0], "--port", port, "--address", "127.0.0.1", "--log-level", "error", "--timeout", "60000"]
    server = Server()
    server.append_worker(Tiny, num=1, max_batch_size=64, max_wait_time=WAIT)
    server.run()
