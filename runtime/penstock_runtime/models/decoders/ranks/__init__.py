"""Tensor parallel: a model split over several processes (docs/design/tensor-parallel.md)."""
