"""Cost of a pool: which prices apply to its pods, and what an hour, a request and a token cost."""
