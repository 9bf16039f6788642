"""The batch service of a namespace: OpenAI's Files and Batch API in front of its pools, and a dispatcher of lines."""
