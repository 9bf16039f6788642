"""`kubectl penstock`: explains the decisions of a pool's control loop and simulates other policies; read-only."""
