"""The bench's clock."""

from time import perf_counter as now

__all__ = ["now"]
