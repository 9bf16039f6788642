"""The `thread` placement: an engine in a thread of the HTTP process, and how both share a core."""
