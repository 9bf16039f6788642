"""Decoders that run in torch, and their verification against the original model."""
