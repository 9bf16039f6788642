"""Observe step: cluster objects and signals of pools; changes nothing in the cluster."""
