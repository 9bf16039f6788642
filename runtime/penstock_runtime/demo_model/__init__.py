"""A tiny model that the project makes itself, so that a demo generates readable text without any download."""
