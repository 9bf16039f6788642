"""Metrics and the utilization of the GPU."""
