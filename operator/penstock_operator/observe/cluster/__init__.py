"""Kubernetes objects: handlers, watches, the cache, and the lists that keep it right."""
