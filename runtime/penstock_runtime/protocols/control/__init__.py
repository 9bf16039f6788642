"""The control API: live limits and state, for the operator."""
