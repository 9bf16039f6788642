"""The second law, `CapacityAtObjective`: knows what a replica can do at the objective, and forecasts to its start."""
