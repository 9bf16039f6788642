"""Holding: requests that find no pod wait for one, in order, within bounds."""
