"""Serving of generation: admission, requests, response streams."""
