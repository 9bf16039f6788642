"""MLServer: adaptive batching, V2 in and out."""

import torch
from mlserver import MLModel
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
