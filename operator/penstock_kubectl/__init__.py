"""`kubectl penstock`: explain what a pool's control loop does, and simulate what it would do. Reads; writes nothing to a cluster."""
