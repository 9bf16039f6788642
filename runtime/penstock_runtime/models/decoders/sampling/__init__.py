"""Sampling: logits processors, the sampler and its random numbers."""
