"""PyTriton: Triton's own front end and batcher, the network in this process."""

import os
from pathlib import Path

import numpy as np
import pytriton
import torch
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
from tiny_mlp import network

LOCK = "import threading\n\nthreading._CRLock = None\n"
MODEL = network()
torch.set_num_threads(1)


@batch
def infer(X):
    with torch.inference_mode():
        return [MODEL(torch.from_numpy(X)).numpy()]


def mend():
    """Make Triton's interpreter, which is older than its standard library, use the lock written in Python.

    `multiprocessing` of Python 3.11.7 and later reads the recursion count of a lock, which the C lock of 3.11.6 lacks.
    """
    proxy = Path(pytriton.__file__).parent / "proxy" / "model.py"
    text = proxy.read_text()
    if LOCK not in text:
        proxy.write_text(text.replace("import asyncio\n", LOCK + "import asyncio\n", 1))


if __name__ == "__main__":
    mend()
    config = TritonConfig(
        http_port=int(os.environ["BENCH_PORT"]), http_address="127.0.0.1", allow_grpc=False, allow_metrics=False, log_verbose=0
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name="mlp",
            infer_func=infer,
            inputs=[Tensor(name="X", dtype=np.float32, shape=(64,))],
            outputs=[Tensor(name="Y", dtype=np.float32, shape=(16,))],
            config=ModelConfig(
                max_batch_size=64,
                batcher=DynamicBatcher(max_queue_delay_microseconds=1000 * int(os.environ["BENCH_WAIT_MS"])),
            ),
        )
        triton.serve()
