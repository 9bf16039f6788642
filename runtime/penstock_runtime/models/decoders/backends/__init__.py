"""Compute backends: the registry, and the selection by measured times."""
