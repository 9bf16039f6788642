"""Placement, pure: which of the waiting share the next batch, or how long to wait for more."""
