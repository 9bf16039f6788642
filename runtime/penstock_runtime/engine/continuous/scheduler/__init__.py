"""Placement of generations, pure: which sequences run in the next step, on which blocks, and who yields."""
