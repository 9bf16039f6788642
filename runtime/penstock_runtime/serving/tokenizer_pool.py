"""`TokenizerPool`: turns texts into the rows of an encoder, off the event loop and in micro-batches.

While a dedicated thread tokenizes one batch of texts, the next batch gathers: a single text is tokenized at once, and
under load many texts share the cost of a thread switch.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock_api.types.model import Task
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.errors import BadInput, ContextExceeded, DeadlineTooNear, RequestRejected
from penstock_runtime.models.encoders.directory import IDS, MASK, read_directory
from penstock_runtime.request import Tensor
from penstock_runtime.serving.admission.memory_budget import Hold
from penstock_runtime.serving.admission.retry_after import MIN_RETRY_SECONDS
from penstock_runtime.text.bounds import check_text_bytes, max_text_bytes, text_bytes

ENCODED: Final = frozenset((Task.EMBEDDING, Task.CLASSIFICATION))
"""Tasks whose models read texts as rows of tokens."""
Ids = NDArray[np.int64]
Encode = Callable[[list[str]], list[Ids]]
Accept = Callable[[int, list[Ids]], None]
"""Checks and counts the ids of some texts of a request, from an index on; raises RequestRejected."""


MAX_CHARACTERS: Final = 2**18
"""Maximum characters of one call before its last text: 0.1 s of the shared thread."""
MAX_PADDED_TOKENS: Final = 2**21
"""Maximum tokens of the rows of one request, padded to the longest: 32 MiB. 4,096 rows of 512 tokens fit."""
_THREAD_BYTES: Final = 2**22
"""Size of rows up to which building them takes less than 2 ms."""


class _Waiting(Struct, eq=False):
    """The texts of one request."""

    texts: Sequence[str]
    accept: Accept
    ids: asyncio.Future[list[Ids]]
    done: list[Ids] = []
    """Ids of the texts that are tokenized, in order."""

    def next(self, room: int) -> "_Piece":
        """Return the next texts, those that start within `room` characters."""
        start = stop = len(self.done)
        while stop < len(self.texts) and room > 0:
            room -= len(self.texts[stop])
            stop += 1
        return _Piece(self, self.texts[start:stop], room)

    def unfinished(self) -> bool:
        """Return whether its caller still waits."""
        return not self.ids.done()


class _Piece(NamedTuple):
    """The texts of one request in one call."""

    of: _Waiting
    texts: Sequence[str]
    room: int
    """Characters left for other requests in the same call; 0 or less: none."""

    def complete(self, ids: list[Ids]) -> None:
        """Record the ids of these texts; the last piece, or the first that is not accepted, ends its request."""
        request = self.of
        if not request.unfinished():
            return
        try:
            request.accept(len(request.done), ids)
        except RequestRejected as rejection:
            request.ids.set_exception(rejection.with_traceback(None))  # a cycle: it has this frame
            return
        request.done += ids
        if len(request.done) == len(request.texts):
            request.ids.set_result(request.done)


class MicroBatcher:
    """Passes texts to one function in as few calls as possible.

    A call has a limit of characters. The rest of a larger request follows the requests behind it, so that none
    waits for all of a large one. The texts of cancelled requests are skipped.
    """

    def __init__(self, encode: Encode, executor: ThreadPoolExecutor) -> None:
        self._encode = encode
        self._executor = executor
        self._waiting: deque[_Waiting] = deque()
        self._running: asyncio.Task[None] | None = None

    def busy(self) -> bool:
        """Return whether texts are being processed."""
        return self._running is not None and not self._running.done()

    async def ids(self, texts: Sequence[str], accept: Accept) -> list[Ids]:
        """Return the ids of each text; raise whatever the function or `accept` raises for these texts alone."""
        future: asyncio.Future[list[Ids]] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(texts, accept, future)
        self._waiting.append(waiting)
        if not self.busy():
            self._running = asyncio.create_task(self._run())
        try:
            return await future
        except asyncio.CancelledError:
            self._drop(waiting)
            raise
        finally:
            del future, waiting  # a cycle: the traceback of the future's exception has this frame

    def _drop(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    async def _run(self) -> None:
        while self._waiting:
            pieces = self._take()
            try:
                await self._serve(pieces)
            except Exception:  # noqa: BLE001  one bad text must not fail its batch-mates
                for piece in pieces:
                    await self._serve_alone(piece)
            self._waiting.extend(piece.of for piece in pieces if piece.of.unfinished())

    def _take(self) -> list[_Piece]:
        """Return the pieces of the next call; the rest of a larger request is queued again."""
        pieces, room = list[_Piece](), MAX_CHARACTERS
        while self._waiting and room > 0:
            piece = self._waiting.popleft().next(room)
            pieces.append(piece)
            room = piece.room
        return pieces

    async def _serve(self, pieces: Sequence[_Piece]) -> None:
        texts = [text for piece in pieces for text in piece.texts]
        loop = asyncio.get_running_loop()
        ids = await loop.run_in_executor(self._executor, self._encode, texts)
        start = 0
        for piece in pieces:
            piece.complete(ids[start : start + len(piece.texts)])
            start += len(piece.texts)

    async def _serve_alone(self, piece: _Piece) -> None:
        if not piece.of.unfinished():
            return
        try:
            await self._serve((piece,))
        except Exception as error:  # noqa: BLE001  its own request receives it
            if piece.of.unfinished():
                piece.of.ids.set_exception(error.with_traceback(None))  # as in `complete`


class TokenizerPool:
    """Tokenizes the texts of a pod."""

    def __init__(self, whole: Encode, cut: Encode, max_tokens: int, vocabulary: int) -> None:
        """`whole` tokenizes all of a text, `cut` at most `max_tokens`."""
        executor = ThreadPoolExecutor(1, thread_name_prefix="penstock-tokenizer")
        self._whole, self._cut = MicroBatcher(whole, executor), MicroBatcher(cut, executor)
        self.max_tokens = max_tokens
        self.max_bytes: Final = max_text_bytes(max_tokens)
        """Maximum bytes of one text: a longer one would delay the others, and is rejected or cut unread."""
        self.vocabulary = vocabulary

    def busy(self) -> bool:
        """Return whether texts are being tokenized."""
        return self._whole.busy() or self._cut.busy()

    async def encode(
        self,
        texts: Sequence[str],
        field: str,
        hold: Callable[[int], None],
        *,
        cut: bool = False,
        within_seconds: float | None = None,
    ) -> list[Ids]:
        """Return the ids of each text; texts that do not start within `within_seconds` are skipped.

        `hold` counts the texts and the ids so far. The first text that is rejected ends the request; the rest is skipped.

        Raises:
            BadInput: a text is not a string, or has more tokens (or far more bytes) than the model accepts and may not
                be cut.
            MemoryFull, TooLarge: as `hold`.
            TooLate: they were not tokenized within `within_seconds`.
        """
        if cut:
            texts = [text[: self.max_bytes] for text in texts]
        else:
            for index, text in enumerate(texts):
                check_text_bytes(text_bytes(text), self.max_tokens, f"{field}[{index}]")
        counted = texts_bytes(texts)

        def accept(first: int, ids: list[Ids]) -> None:
            nonlocal counted
            self.check(ids, field, first)
            counted += sum(row.nbytes for row in ids)
            hold(counted)

        try:
            async with asyncio.timeout(within_seconds):
                return await (self._cut if cut else self._whole).ids(texts, accept)
        except TimeoutError as error:
            raise DeadlineTooNear(
                f"the deadline of {within_seconds:g} s passed while texts before these were tokenized:"
                " give it more time, or try again later",
                field=field,
                retry_after_seconds=MIN_RETRY_SECONDS,
            ) from error
        except (TypeError, ValueError) as error:
            raise BadInput(f"`{field}` cannot be tokenized: {error}", field=field) from error

    def check(self, ids: Sequence[Ids], field: str, first: int = 0) -> None:
        """Raise BadInput unless every row, from index `first` on, has 1 to `max_tokens` ids of the vocabulary."""
        for index, row in enumerate(ids, first):
            where = f"{field}[{index}]"
            if not len(row):
                raise BadInput(f"`{where}` has no tokens: send at least one", field=where)
            if len(row) > self.max_tokens:
                raise ContextExceeded(
                    f"`{where}` has {len(row)} tokens, this model's maximum context length is"
                    f" {self.max_tokens} tokens:"
                    " send less, or set the option that truncates it",
                    field=where,
                )
            if row.view(np.uint64).max() >= self.vocabulary:  # as unsigned, a negative id is large
                raise BadInput(
                    f"`{where}` holds a token id outside the vocabulary of {self.vocabulary}",
                    field=where,
                )


def nearest(seconds: float | None, other: float | None) -> float | None:
    """Return the smaller of two timeouts; None is unlimited."""
    return min((limit for limit in (seconds, other) if limit is not None), default=None)


def texts_bytes(texts: Iterable[str]) -> int:
    """Return the memory of texts: 1 to 4 bytes per character, by the widest character of each text."""
    return sum(map(sys.getsizeof, texts))


def rows_bytes(ids: Sequence[Ids]) -> int:
    """Return the memory of `rows_of`: ids and mask of each row, padded to the longest."""
    return len(ids) * max(map(len, ids)) * 2 * np.dtype(np.int64).itemsize


async def held_rows_of(ids: Sequence[Ids], field: str, hold: Hold) -> dict[str, Tensor]:
    """Return `rows_of(ids)`, counted by `hold`; many are built in a thread.

    Raises:
        BadInput: padded to the longest row they have more than `MAX_PADDED_TOKENS`.
        MemoryFull: as `hold`.
    """
    size, longest = rows_bytes(ids), max(map(len, ids))
    if len(ids) * longest > MAX_PADDED_TOKENS:
        raise BadInput(
            f"`{field}` has {len(ids)} rows, padded to {longest} tokens: {len(ids) * longest} tokens, more than the"
            f" {MAX_PADDED_TOKENS} of one request: send fewer rows, or long and short ones in separate requests",
            field=field,
        )
    if size <= _THREAD_BYTES:
        hold(size)
        return rows_of(ids)
    hold(2 * size)  # with the ids and a copy of them
    rows = await hold.in_thread(rows_of, ids)
    hold(size)
    return rows


def rows_of(ids: Sequence[Ids]) -> dict[str, Tensor]:
    """Return the inputs of the encoder: one row per text, padded with zeros."""
    if len(ids) == 1:
        row = ids[0][None]
        return {IDS: row, MASK: np.ones_like(row)}
    lengths = np.array([len(row) for row in ids])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    padded = np.zeros_like(mask)
    padded[mask == 1] = np.concatenate(ids)
    return {IDS: padded, MASK: mask}


def tokenizing(config: RuntimeConfig) -> TokenizerPool | None:
    """Return the tokenizer of the model's directory; None if the model's rows are not texts.

    Raises:
        ModelLoadFailed: as `read_directory`.
    """
    files = config.model.source.files
    if config.model.task not in ENCODED or files is None:
        return None
    from penstock_runtime.models.encoders.tokenizer import (  # noqa: PLC0415 - for pools that read texts
        TextTokenizer,
    )

    directory = read_directory(config.files_folder / (files.path or "."))
    tokenizer = TextTokenizer(directory.folder, directory.max_tokens)

    def cut(texts: list[str]) -> list[Ids]:
        return tokenizer.encode(texts, truncate=True)

    return TokenizerPool(tokenizer.encode, cut, directory.max_tokens, directory.vocabulary)
