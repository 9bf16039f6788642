"""The API server: lists and watches of one namespace."""
