"""Model sources: download into a cache, resumable, verified, and once for all pods that share the cache."""
