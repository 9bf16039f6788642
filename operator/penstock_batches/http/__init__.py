"""OpenAI's Files and Batch API for clients, and health and metrics."""
