"""Observation: the cluster's objects and the pools' signals; nothing is changed here."""
