"""Calls to pods and Prometheus: HTTP client, control tokens and TLS."""
