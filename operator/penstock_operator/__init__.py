"""The operator: observe -> decide -> act, one level-based pass."""
