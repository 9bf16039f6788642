"""The OpenAI API, with vLLM's additions: what a client library and a load generator of that world expect."""
