"""What a step of generation takes, and what one replica can do at the objectives: for `CapacityAtObjective`."""
