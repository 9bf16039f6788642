"""vLLM's CPU build as in `vllm_cpu.py`, without its compiler: for machines on which that does not finish."""

from tests.bench.generation.peers import vllm_cpu


class Peer(vllm_cpu.Peer):
    """One loaded model."""

    eager = True
