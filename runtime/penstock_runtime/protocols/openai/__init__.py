"""The OpenAI API with vLLM's additions, as client libraries and load generators expect it."""
