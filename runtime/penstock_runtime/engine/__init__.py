"""The loop: take messages in, form a batch, run it, settle it. Knows a model only by its protocol."""
