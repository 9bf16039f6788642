"""Nouns that operator and runtime share. Imports nothing but pydantic and the standard library."""
