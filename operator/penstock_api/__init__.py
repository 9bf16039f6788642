"""API types and names that operator and runtime share; imports only pydantic and the standard library."""
