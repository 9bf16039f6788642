"""The `process` placement: an engine in a child process, its socket and the memory that both share."""
