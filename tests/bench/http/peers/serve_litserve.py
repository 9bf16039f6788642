"""LitServe: FastAPI in front, one worker."""

import os

import litserve
import torch
from tiny_mlp import network


class Tiny(litserve.LitAPI):
    """The network, batch by batch."""

    def setup(self, device):
        torch.set_num_threads(1)
        self.model = network()

    def decode_request(self, request):
        return request["inputs"][0]["data"]

    def batch(self, inputs):
        return torch.tensor(inputs)

    def predict(self, x):
        with torch.inference_mode():
            return self.model(x)

    def unbatch(self, output):
        return output.tolist()

    def encode_response(self, output):
        return {"outputs": [{"name": "Y", "datatype": "FP32", "shape": [1, 16], "data": output}]}


if __name__ == "__main__":
    wait = int(os.environ["BENCH_WAIT_MS"]) / 1000
    api = Tiny(max_batch_size=64, batch_timeout=max(wait, 0.001), api_path="/predict")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=60)
    server.run(
        host="127.0.0.1", port=int(os.environ["BENCH_PORT"]), num_api_servers=1,
        generate_client_file=False, log_level="error", access_log=False,
    )
