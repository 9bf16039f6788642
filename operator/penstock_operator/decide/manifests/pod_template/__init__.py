"""The pod template of a pool, part by part."""
