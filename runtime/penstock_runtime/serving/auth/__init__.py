"""Callers: API keys, trusted proxies, rates."""
