"""Sampling: logits processors, the sampler, its random numbers."""
