"""The seam between HTTP side and engine: the same messages whether the engine is a thread or a process."""
