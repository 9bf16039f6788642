"""The bodies of requests as pydantic types: what is allowed, in which bounds, under which name."""
