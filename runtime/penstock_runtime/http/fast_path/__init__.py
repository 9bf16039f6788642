"""The fast path: serves a plain request (complete, of known length, to one known route) before aiohttp parses it.

`request_head` parses the head, `connection` decides which path a request takes, `exchange` answers it, `response`
renders the answer. A request that is not plain goes to aiohttp's own protocol untouched. Both paths share the reader, the
admission and the replies, so that they answer the same bytes.
"""
