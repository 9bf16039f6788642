"""The `process` placement: an engine in a child process, its socket and its shared memory."""
