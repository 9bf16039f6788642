"""`TextEncoder`: encodes prompt texts to token ids off the event loop, within limits of size and memory.

A text too large for the context is rejected before tokenization: a tokenizer takes a second and up to 230 MiB for
each MiB. `encode_batch_fast` releases the GIL, `encode` does not.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from penstock_runtime.errors import BadInput, ContextExceeded
from penstock_runtime.text.bounds import check_text_bytes, text_bytes
from penstock_runtime.text.tokenizer import Tokenizer

MEMORY_PER_BYTE: Final = 230
"""Bytes of memory per byte of text during encoding; measured: 114 for words, 229 for random characters."""
MAX_HELD_SHARE: Final = 7 / 8
"""Share of the memory of all requests that encoding one text may use; its request body needs some as well."""
MAX_IDS: Final = 2**18
"""Lower bound of the limit on token ids, so that `/tokenize` can count the tokens of a text that is too long."""
SHORT_CHARACTERS: Final = 2048
"""Length up to which encoding a text takes less time than waking a thread."""
PART_BYTES: Final = 2**16
"""Bytes of a growing text after which its size and memory are checked."""
MEMORY_PER_PART_BYTE: Final = 8
"""Bytes of memory per byte of a growing text: its parts and the whole, of four bytes a character at most."""

ReserveMemory = Callable[[int], Callable[[], None]]
"""Reserves bytes; returns the function that releases them. Raises MemoryFull."""


class TextEncoder:
    """Encodes the texts of one model's requests."""

    def __init__(
        self, tokenizer: Tokenizer, context_tokens: int, hold: ReserveMemory, max_held_bytes: int
    ) -> None:
        """`max_held_bytes`: memory of all requests together."""
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
            ContextExceeded: `count` exceeds `max_ids`.
        """
        if count > self.max_ids:
            raise ContextExceeded(
                f"`{field}` has {count} tokens, more than the maximum of {self.max_ids}: this model's maximum"
                f" context length is {self._context_tokens} tokens: shorten it",
                field=field,
            )

    async def collect(self, pieces: Iterator[str], field: str) -> str:
        """Return the text of `pieces`, which threads compute; its memory counts while it grows.

        Raises:
            ContextExceeded: it cannot fit the context; no further piece is computed.
            MemoryFull: it takes more memory than is free.
        """
        parts, total = list[str](), 0
        with ExitStack() as releases:
            while True:
                part = await asyncio.to_thread(_next_part, pieces)
                size = text_bytes(part)
                total += size
                self.check_bytes(total, field)
                parts.append(part)
                if size < PART_BYTES:
                    return "".join(parts)
                releases.callback(self._hold(size * MEMORY_PER_PART_BYTE))

    async def encode(self, text: str, field: str, *, add_special: bool) -> list[int]:
        """Return the ids of `text`.

        Raises:
            ContextExceeded: it cannot fit the context.
            BadInput: encoding it takes more memory than the pod has.
            MemoryFull: encoding it takes more memory than is free.
        """
        size = text_bytes(text)
        self.check_bytes(size, field)
        if size <= SHORT_CHARACTERS:
            return self._ids(text, field, add_special)
        self._check_memory(size, field)
        release = self._hold(size * MEMORY_PER_BYTE)
        work = self._threads.submit(self._ids, text, field, add_special)
        loop = asyncio.get_running_loop()

        def done(_work: Future[list[int]]) -> None:
            loop.call_soon_threadsafe(
                release
            )  # not on disconnect, when the thread is still running

        work.add_done_callback(done)
        try:
            return await asyncio.wrap_future(work)
        finally:
            del work  # a cycle: the traceback of its exception has this frame

    def _check_memory(self, size: int, field: str) -> None:
        limit = int(self._max_held_bytes * MAX_HELD_SHARE) // MEMORY_PER_BYTE
        if size > limit:
            raise BadInput(
                f"`{field}` has {size} bytes of text, more than the {limit} that this pod has memory to encode: shorten it, or"
                f" give the pod more than the {self._max_held_bytes} bytes of PENSTOCK_MAX_HELD_BYTES",
                field=field,
            )

    def _ids(self, text: str, field: str, add_special: bool) -> list[int]:  # noqa: FBT001 - as executors pass it
        encoding = self._tokenizer.encode_full(text, add_special=add_special)
        # building a list of millions of ids holds the GIL
        self.check_ids(len(encoding), field)
        ids: list[int] = encoding.ids
        return ids


def _next_part(pieces: Iterator[str]) -> str:
    """Return the next PART_BYTES of text or a little more; fewer at the end."""
    taken, size = list[str](), 0
    for piece in pieces:
        taken.append(piece)
        size += text_bytes(piece)
        if size >= PART_BYTES:
            break
    return "".join(taken)
