"""Calls to pods and Prometheus: HTTP, tokens, TLS."""
