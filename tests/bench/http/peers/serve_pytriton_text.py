"""PyTriton over a text encoder: token ids for the encoder, texts for the embedder."""

import os

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
from serve_pytriton import mend
from text_encoder import PeerEncoder

ENCODER = PeerEncoder()
WIDTH = ENCODER.model.config.hidden_size


@batch
def of_ids(input_ids, attention_mask):
    return [np.array(ENCODER.embed_ids(input_ids.tolist()), np.float32)]


@batch
def of_texts(text):
    return [np.array(ENCODER.embed_texts([row.decode() for row in text[:, 0]]), np.float32)]


if __name__ == "__main__":
    mend()
    texts = os.environ["BENCH_BODY"] == "texts"
    ids = [Tensor(name=name, dtype=np.int64, shape=(-1,)) for name in ("input_ids", "attention_mask")]
    config = TritonConfig(
        http_port=int(os.environ["BENCH_PORT"]), http_address="127.0.0.1", allow_grpc=False, allow_metrics=False, log_verbose=0
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name="texts",
            infer_func=of_texts if texts else of_ids,
            inputs=[Tensor(name="text", dtype=bytes, shape=(1,))] if texts else ids,
            outputs=[Tensor(name="embedding", dtype=np.float32, shape=(WIDTH,))],
            config=ModelConfig(
                max_batch_size=64,
                batcher=DynamicBatcher(max_queue_delay_microseconds=1000 * int(os.environ["BENCH_WAIT_MS"])),
            ),
        )
        triton.serve()
