"""Protocols of the client and cluster ports: each converts between the wire and requests, in its own module or package."""
