"""Signals as control laws read them: counters, windows, aggregates, service curves."""
