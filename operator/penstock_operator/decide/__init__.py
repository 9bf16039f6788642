"""Decide step: computes a plan from observations. Pure: time is an argument, and nothing here does I/O."""
