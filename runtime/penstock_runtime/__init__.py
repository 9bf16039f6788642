"""The runtime of a pool's pods. The folders are a request's life: protocols -> link -> engine -> models."""
