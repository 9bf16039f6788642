"""Capacity of one replica: service curves, step times, start-up."""
