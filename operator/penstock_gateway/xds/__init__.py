"""The Aggregated Discovery Service: incremental (delta) xDS, one resource in a response."""
