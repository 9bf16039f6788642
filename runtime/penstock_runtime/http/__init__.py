"""HTTP: ports, TLS, routing, connections and their bounds."""
