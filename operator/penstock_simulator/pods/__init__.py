"""The simulated pods of a pool: their life, engine, router and metrics."""
