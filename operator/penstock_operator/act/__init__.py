"""Make it so: writes, pushes, status and Events. Decides nothing."""
