"""Decoders of generative models: loading, the step, and its compute backends."""
