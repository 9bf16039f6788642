"""Telemetry: metrics of the operator, of pools and of policies, the decision log, and logging."""
