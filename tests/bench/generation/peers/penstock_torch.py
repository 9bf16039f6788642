"""This project's engine as in `penstock.py`, with the torch backend for the forward."""

from penstock_runtime.engine.continuous.steps.options import Compute
from tests.bench.generation.peers import penstock


class Peer(penstock.Peer):
    """One loaded model."""

    compute = Compute.TORCH
