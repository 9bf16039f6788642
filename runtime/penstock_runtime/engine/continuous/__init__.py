"""Iteration-level batching: a request lives for many steps. Everything outside `step/` is free of torch."""
