"""The pod template of a pool: `PodTemplate`, its container additions and its volumes."""
