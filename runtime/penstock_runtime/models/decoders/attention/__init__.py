"""Paged attention, one backend a file; which of them serves is found out by running it."""
