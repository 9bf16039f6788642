"""Fetching a model into a cache: resumable, verified, once for all pods that share the cache."""
