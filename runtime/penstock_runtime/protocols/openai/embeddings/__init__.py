"""Embeddings: parsing of requests, rendering of responses, and their routes."""
