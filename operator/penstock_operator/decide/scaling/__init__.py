"""The control laws, pure: what was measured becomes a batch cap, a replica count and a reason."""
