"""Serving of models that compute batches of rows: admission, and the client of a batch engine."""
