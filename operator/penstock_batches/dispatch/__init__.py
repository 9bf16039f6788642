"""Sends the lines of batches to pools: how many at a time, what their answers mean, and how they are recorded."""
