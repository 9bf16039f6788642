"""Code that all protocols share: replies, headers, request ids, the access log."""
