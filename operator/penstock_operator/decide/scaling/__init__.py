"""Control laws: pure functions from signals to a batch cap, a replica count and their reasons."""
