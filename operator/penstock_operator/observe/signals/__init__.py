"""Signals of pools: from Prometheus, from the pods, from DCGM."""
