"""Texts to the rows of an encoder, off the event loop and many at once.

While one batch of texts is tokenised, in a thread that does nothing else, the next gathers: alone a text is
tokenised at once, under load the cost of crossing threads is shared.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock_api.model import Task
from penstock_runtime.config import Config
from penstock_runtime.errors import BadInput
from penstock_runtime.models.encoders.directory import IDS, MASK, read_directory
from penstock_runtime.request import Tensor

ENCODED: Final = frozenset((Task.EMBEDDING, Task.CLASSIFICATION))
"""Tasks whose models read texts as rows of tokens."""
Ids = NDArray[np.int64]
Encode = Callable[[list[str]], list[Ids]]


class _Waiting(NamedTuple):
    texts: Sequence[str]
    ids: asyncio.Future[list[Ids]]


class Gathering:
    """Texts on their way through one function, in as few calls of it as may be."""

    def __init__(self, encode: Encode, executor: ThreadPoolExecutor) -> None:
        self._encode = encode
        self._executor = executor
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    def busy(self) -> bool:
        """Return whether texts are on their way."""
        return self._running is not None and not self._running.done()

    async def ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text; raise whatever the function raises for these texts alone."""
        future: asyncio.Future[list[Ids]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(texts, future))
        if not self.busy():
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._serve(batch)
            except Exception:  # noqa: BLE001  one bad text must not spoil its batch mates
                for one in batch:
                    await self._serve_alone(one)

    async def _serve(self, batch: Sequence[_Waiting]) -> None:
        texts = [text for one in batch for text in one.texts]
        loop = asyncio.get_running_loop()
        ids = await loop.run_in_executor(self._executor, self._encode, texts)
        start = 0
        for one in batch:
            if not one.ids.done():
                one.ids.set_result(ids[start : start + len(one.texts)])
            start += len(one.texts)

    async def _serve_alone(self, one: _Waiting) -> None:
        try:
            await self._serve((one,))
        except Exception as error:  # noqa: BLE001  told to its own request
            if not one.ids.done():
                one.ids.set_exception(error)


class Tokenizing:
    """The texts of one pool's requests."""

    def __init__(self, whole: Encode, cut: Encode, most_tokens: int, vocabulary: int) -> None:
        """`whole` tokenises all of a text, `cut` at most `most_tokens`."""
        executor = ThreadPoolExecutor(1, thread_name_prefix="penstock-tokenizer")
        self._whole, self._cut = Gathering(whole, executor), Gathering(cut, executor)
        self.most_tokens = most_tokens
        self.vocabulary = vocabulary

    def busy(self) -> bool:
        """Return whether texts are being tokenised."""
        return self._whole.busy() or self._cut.busy()

    async def encode(self, texts: Sequence[str], field: str, *, cut: bool = False) -> list[Ids]:
        """Return the ids of each text.

        Raises:
            BadInput: a text is no text, or has more tokens than the model takes and is not to be cut.
        """
        try:
            ids = await (self._cut if cut else self._whole).ids(texts)
        except (TypeError, ValueError) as error:
            raise BadInput(f"`{field}` cannot be tokenised: {error}", field=field) from error
        self.check(ids, field)
        return ids

    def check(self, ids: Sequence[Ids], field: str) -> None:
        """Raise BadInput unless every row has 1 to `most_tokens` ids of the vocabulary."""
        for index, row in enumerate(ids):
            where = f"{field}[{index}]"
            if not 1 <= len(row) <= self.most_tokens:
                raise BadInput(
                    f"`{where}` has {len(row)} tokens, the model takes 1 to {self.most_tokens}:"
                    " send less, or ask for it to be cut",
                    field=where,
                )
            if row.view(np.uint64).max() >= self.vocabulary:  # so seen, what is negative is great
                raise BadInput(
                    f"`{where}` holds a token id outside the vocabulary of {self.vocabulary}",
                    field=where,
                )


def rows_of(ids: Sequence[Ids]) -> dict[str, Tensor]:
    """Return the encoder's inputs: one row a text, zeros behind the shorter ones."""
    if len(ids) == 1:
        row = ids[0][None]
        return {IDS: row, MASK: np.ones_like(row)}
    lengths = np.array([len(one) for one in ids])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    padded = np.zeros_like(mask)
    padded[mask == 1] = np.concatenate(ids)
    return {IDS: padded, MASK: mask}


def tokenizing(config: Config) -> Tokenizing | None:
    """Return the pool's tokenizer, read from its model's directory; None where its texts are no rows.

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
    tokenizer = TextTokenizer(directory.folder, directory.most_tokens)

    def cut(texts: list[str]) -> list[Ids]:
        return tokenizer.encode(texts, cut=True)

    return Tokenizing(tokenizer.encode, cut, directory.most_tokens, directory.vocabulary)
