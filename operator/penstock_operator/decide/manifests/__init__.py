"""Manifests of a pool's child objects, one builder per file, and the writes for their differences from live objects."""
