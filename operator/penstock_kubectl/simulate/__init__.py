"""`kubectl penstock simulate`: the pool as it is, under other policies, and against baselines, in the simulator."""
