"""MLServer: adaptive batching, V2 in and out."""

import asyncio
import os

import torch
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from tiny_mlp import network


class Tiny(MLModel):
    """The network, batch by batch."""

    async def load(self) -> bool:
        torch.set_num_threads(1)
        self.model = network()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = torch.from_numpy(NumpyCodec.decode_input(payload.inputs[0])).float()
        with torch.inference_mode():
            y = self.model(x).numpy()
        return InferenceResponse(model_name="mlp", outputs=[NumpyCodec.encode_output("Y", y)])


async def main():
    settings = Settings(
        host="127.0.0.1", http_port=int(os.environ["BENCH_PORT"]), grpc_port=0, parallel_workers=0, metrics_endpoint=None, debug=False
    )
    wait_seconds = int(os.environ["BENCH_WAIT_MS"]) / 1000
    model = ModelSettings(name="mlp", implementation=Tiny, max_batch_size=64, max_batch_time=wait_seconds)
    await MLServer(settings).start([model])


if __name__ == "__main__":
    asyncio.run(main())
