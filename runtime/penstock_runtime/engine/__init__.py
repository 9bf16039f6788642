"""Engines: the contract of a model, dynamic and continuous batching, and the link to them."""
