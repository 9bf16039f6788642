"""Pydantic types of request bodies, with the names and bounds of their fields."""
