"""The queue of one-shot requests, and its disciplines."""
