"""A discrete-event world that runs the operator's own control laws on traces of arrivals.

The world (`world`, `fleet`, `pod`, `routing`, `scrape`, `arrivals`, `outcome`, `baselines`) is pure: its
time is a number, its chance a seed. `traces`, `table`, `plot` and `__main__` are the edge that reads and prints.
"""
