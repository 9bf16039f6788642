"""The scheduler of continuous batching, its KV cache and its preemption."""
