"""Devices: memory, CUDA graphs, staging, tensors."""
