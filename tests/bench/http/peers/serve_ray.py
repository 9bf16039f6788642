"""Ray Serve: one replica, `serve.batch`; tuned: as its page on high throughput says, without HAProxy, and no access log."""

import os
import time

import ray
import torch
from ray import serve
from tiny_mlp import network

WAIT = int(os.environ["BENCH_WAIT_MS"]) / 1000
TUNED = os.environ.get("RAY_SERVE_THROUGHPUT_OPTIMIZED") == "1"
LOGGING = {"log_level": "ERROR", "enable_access_log": False} if TUNED else None


@serve.deployment(
    num_replicas=1,
    max_ongoing_requests=1024,
    ray_actor_options={"num_cpus": 0.1},
    logging_config=LOGGING,
)
class Tiny:
    """The network, batch by batch."""

    def __init__(self):
        torch.set_num_threads(1)
        self.model = network()

    @serve.batch(max_batch_size=64, batch_wait_timeout_s=WAIT)
    async def predict(self, rows):
        with torch.inference_mode():
            return self.model(torch.tensor(rows)).tolist()

    async def __call__(self, request):
        row = (await request.json())["inputs"][0]["data"]
        data = await self.predict(row)
        return {"outputs": [{"name": "Y", "datatype": "FP32", "shape": [1, 16], "data": data}]}


if __name__ == "__main__":
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    serve.start(
        http_options={"host": "127.0.0.1", "port": int(os.environ["BENCH_PORT"])},
        logging_config=LOGGING,
    )
    serve.run(Tiny.bind(), route_prefix="/predict")
    while True:
        time.sleep(60)
