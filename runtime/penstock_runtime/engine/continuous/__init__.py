"""Continuous batching: generations that share every step."""
