"""Dynamic batching: one-shot requests in batches."""
