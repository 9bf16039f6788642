"""Discrete-event simulator that runs the operator's own control laws on arrival traces.

The world (`world`, `fleet`, `pod`, `routing`, `scrape`, `arrivals`, `outcome`, `baselines`) is pure:
time is a number, and randomness is seeded. `traces`, `table`, `plot` and `__main__` do the I/O.
"""
