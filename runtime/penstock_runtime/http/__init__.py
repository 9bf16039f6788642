"""HTTP servers of a pod: ports, TLS, routing, connections and their limits."""
