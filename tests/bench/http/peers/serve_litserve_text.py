"""LitServe over a text encoder."""

import os

import litserve
from text_encoder import PeerEncoder, answer_for, input_of


class Texts(litserve.LitAPI):
    """The encoder, batch by batch."""

    def setup(self, device):
        self.encoder = PeerEncoder()

    def decode_request(self, request):
        return request

    def batch(self, inputs):
        return inputs

    def predict(self, bodies):
        given = [input_of(body) for body in bodies]
        encode = self.encoder.embed_texts if isinstance(given[0], str) else self.encoder.embed_ids
        return [answer_for(body, vector) for body, vector in zip(bodies, encode(given), strict=True)]

    def unbatch(self, output):
        return output

    def encode_response(self, output):
        return output


if __name__ == "__main__":
    wait = int(os.environ["BENCH_WAIT_MS"]) / 1000
    api = Texts(max_batch_size=64, batch_timeout=max(wait, 0.001), api_path="/predict")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=60)
    server.run(
        host="127.0.0.1", port=int(os.environ["BENCH_PORT"]), num_api_servers=1,
        generate_client_file=False, log_level="error", access_log=False,
    )
