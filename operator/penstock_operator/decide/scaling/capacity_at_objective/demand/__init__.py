"""Demand: arrivals, their forecast, and the forecast's errors."""
