"""Kubernetes objects: handlers, watches, the object store, and its resync."""
