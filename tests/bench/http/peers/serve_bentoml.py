"""BentoML: adaptive batching by its own latency aim; `bentoml serve` starts it."""

import bentoml
import torch
from tiny_mlp import network


@bentoml.service(
    workers=1,
    traffic={"timeout": 60, "max_concurrency": 1024},
    logging={"access": {"enabled": False}},
)
class Tiny:
    """The network, batch by batch."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.model = network()

    @bentoml.api(batchable=True, max_batch_size=64, max_latency_ms=1000, route="/predict")
    def predict(self, data: list[list[float]]) -> list[list[float]]:
        with torch.inference_mode():
            return self.model(torch.tensor(data)).tolist()
