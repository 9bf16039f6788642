"""Backends of one-shot models: each compiles a model to files, and opens the files as a call on batches."""
