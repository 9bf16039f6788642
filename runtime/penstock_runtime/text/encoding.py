"""Prompt texts to token ids, bounded before the tokenizer sees them and off the event loop.

A text with more bytes than any prompt of the context has is refused unread: a tokenizer takes a second and up to
230 MiB for each MiB. `encode_batch_fast` releases the GIL, `encode` does not.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from penstock_runtime.errors import BadInput, ContextExceeded
from penstock_runtime.text.bounds import check_text_bytes, text_bytes
from penstock_runtime.text.tokenizer import Tokenizer

MEMORY_PER_BYTE: Final = 230
"""Bytes of memory that one byte of text takes while it is encoded: 114 (words) to 229 (random characters), measured."""
MAX_HELD_SHARE: Final = 7 / 8
"""Of the bytes that requests may take together, what one text may take to be encoded; the body it came in takes more."""
MAX_IDS: Final = 2**18
"""Token ids that are returned for any context, so that `/tokenize` can tell by how much a text is too long."""
SHORT_CHARACTERS: Final = 2048
"""Length up to which a text is encoded faster than a thread wakes up."""

HoldApart = Callable[[int], Callable[[], None]]
"""Counts bytes that a piece of work takes; returns what gives them back. Raises MemoryFull."""


class TextEncoder:
    """Encodes the texts of one model's requests."""

    def __init__(
        self, tokenizer: Tokenizer, context_tokens: int, hold: HoldApart, max_held_bytes: int
    ) -> None:
        """`max_held_bytes`: of all requests together."""
        self._tokenizer = tokenizer
        self._context_tokens = context_tokens
        self._hold = hold
        self._max_held_bytes = max_held_bytes
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="penstock-tokenizer")
        self.max_ids: Final = max(context_tokens, MAX_IDS)

    def check_bytes(self, size: int, field: str) -> None:
        """Check that a text of `size` bytes may be encoded.

        Raises:
            ContextExceeded: it cannot fit the context.
        """
        check_text_bytes(size, self._context_tokens, field)

    def check_ids(self, count: int, field: str) -> None:
        """Check that a list of `count` token ids may be read or returned.

        Raises:
            ContextExceeded: they are too many.
        """
        if count > self.max_ids:
            raise ContextExceeded(
                f"`{field}` has {count} tokens, more than the {self.max_ids} that are taken: this model's maximum"
                f" context length is {self._context_tokens} tokens: shorten it",
                field=field,
            )

    async def encode(self, text: str, field: str, *, add_special: bool) -> list[int]:
        """Return the ids of `text`.

        Raises:
            ContextExceeded: it cannot fit the context.
            BadInput: encoding it would take more memory than there ever is.
            MemoryFull: encoding it would take more memory than is free.
        """
        size = text_bytes(text)
        self.check_bytes(size, field)
        if size <= SHORT_CHARACTERS:
            return self._ids(text, field, add_special)
        self._check_memory(size, field)
        give_back = self._hold(size * MEMORY_PER_BYTE)
        work = self._threads.submit(self._ids, text, field, add_special)
        loop = asyncio.get_running_loop()

        def done(_work: Future[list[int]]) -> None:
            loop.call_soon_threadsafe(
                give_back
            )  # not when the client leaves: the thread still works

        work.add_done_callback(done)
        return await asyncio.wrap_future(work)

    def _check_memory(self, size: int, field: str) -> None:
        most = int(self._max_held_bytes * MAX_HELD_SHARE) // MEMORY_PER_BYTE
        if size > most:
            raise BadInput(
                f"`{field}` has {size} bytes of text, more than the {most} that this pod has memory to encode: shorten it, or"
                f" give the pod more than the {self._max_held_bytes} bytes of PENSTOCK_MAX_HELD_BYTES",
                field=field,
            )

    def _ids(self, text: str, field: str, add_special: bool) -> list[int]:  # noqa: FBT001 - as executors pass it
        encoding = self._tokenizer.encode_full(text, add_special=add_special)
        self.check_ids(
            len(encoding), field
        )  # a list of millions of ids would be made under the GIL
        ids: list[int] = encoding.ids
        return ids
