"""Decoders of generative models: loading, the step, and its backends."""
