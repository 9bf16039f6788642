"""Drives batches through their states: validates inputs, and writes the files of answers."""
