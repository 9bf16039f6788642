"""The link between the HTTP side and an engine, in a thread or a separate process."""
