"""Admission: the life of a request on the HTTP side, and the bounds that it passes."""
