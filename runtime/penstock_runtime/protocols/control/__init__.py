"""The control API for the operator: live limits and state."""
