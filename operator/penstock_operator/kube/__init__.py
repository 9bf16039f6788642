"""The API server: its client, the kinds, the served scope, and the Leases."""
