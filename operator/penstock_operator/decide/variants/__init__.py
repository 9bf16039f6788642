"""Variants of a pool: replicas of unlike accelerators or settings behind one Service, and the cheapest mix of them. Pure."""
