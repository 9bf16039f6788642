"""Envoy's configuration as plain JSON values, in the words of Envoy's own documentation."""
