"""The effective spec of a pool: built-in values, policy defaults, its own spec, bounds and schedules."""
