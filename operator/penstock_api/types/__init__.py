"""The types of both kinds, InferencePool and InferencePolicy, one part per file."""
