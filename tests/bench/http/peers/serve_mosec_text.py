"""Mosec over a text encoder."""

import os
import sys

import orjson
from mosec import Server, Worker
from text_encoder import PeerEncoder, answer_for, input_of

WAIT = int(os.environ["BENCH_WAIT_MS"])


class Texts(Worker):
    """The encoder, batch by batch."""

    def __init__(self):
        self.encoder = PeerEncoder()

    def deserialize(self, data):
        return orjson.loads(data)

    def serialize(self, data):
        return orjson.dumps(data)

    def forward(self, data):
        given = [input_of(body) for body in data]
        encode = self.encoder.embed_texts if isinstance(given[0], str) else self.encoder.embed_ids
        return [answer_for(body, vector) for body, vector in zip(data, encode(given), strict=True)]


if __name__ == "__main__":
    port = os.environ["BENCH_PORT"]
    sys.argv = [sys.argv[0], "--port", port, "--address", "127.0.0.1", "--log-level", "error", "--timeout", "60000"]
    server = Server()
    server.append_worker(Texts, num=1, max_batch_size=64, max_wait_time=WAIT)
    server.run()
