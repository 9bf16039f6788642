"""Signals of pools: from Prometheus, the pods and the DCGM exporter."""
