"""Access to the API server: client, kinds, served scope and Leases."""
