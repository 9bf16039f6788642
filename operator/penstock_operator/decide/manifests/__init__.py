"""A pool's children, one builder a file: pure functions from a spec to a manifest."""
