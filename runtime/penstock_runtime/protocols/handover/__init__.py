"""The route on which a pod continues the generations of another pod."""
