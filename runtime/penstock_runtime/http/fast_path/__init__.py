"""The short way for the plain request: complete, of known length, to one known route.

`heads` understands the head, `connection` decides which lane a request takes, `lane` answers it, `wire`
writes the answer. Whatever is not plain goes to aiohttp's own protocol untouched, and both lanes answer
the same bytes: they share the reader, the admission and the replies.
"""
