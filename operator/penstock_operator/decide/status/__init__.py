"""The status of a pool and its policies: conditions, Events, fields."""
