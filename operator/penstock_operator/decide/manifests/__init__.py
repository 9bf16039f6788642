"""Manifests of a pool's children, one builder a file, and how they differ from what is there."""
