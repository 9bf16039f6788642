"""Predicted latency: the table of 99th percentiles, and its interpolation."""
