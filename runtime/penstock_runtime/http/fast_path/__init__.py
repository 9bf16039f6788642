"""The short way for the plain request: complete, of known length, to one known route.

`request_head` understands the head, `connection` decides which path a request takes, `exchange` answers it,
`response` writes the answer. Whatever is not plain goes to aiohttp's own protocol untouched, and both lanes answer
the same bytes: they share the reader, the admission and the replies.
"""
