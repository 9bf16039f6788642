"""Tensor and pipeline parallel: a model split over several processes (docs/design/parallel.md)."""
