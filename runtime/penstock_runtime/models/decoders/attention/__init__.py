"""Backends of paged attention."""
