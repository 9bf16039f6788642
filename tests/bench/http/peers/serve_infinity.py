"""Infinity, by its own command line: torch, float32, no BetterTransformer (it would want optimum too)."""

import os
import sys

import torch
from infinity_emb.cli import cli

if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.argv = [
        "infinity_emb", "v2", "--model-id", os.environ["BENCH_MODEL"], "--engine", "torch", "--device", "cpu",
        "--dtype", "float32", "--batch-size", "64", "--no-bettertransformer", "--no-model-warmup",
        "--host", "127.0.0.1", "--port", os.environ["BENCH_PORT"], "--log-level", "error",
    ]  # fmt: skip
    cli()
