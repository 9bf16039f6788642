"""The simulated pods of a pool: their lifecycle, engine, router and metrics."""
