"""The effective spec of a pool: defaults, policies, ranges, schedules."""
