"""`start_together`: several engine processes that load one model, and succeed or fail as one."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.model import ModelLoadFailed, describe

LAST_WORDS_SECONDS: Final = 0.5
"""Time after the first failure for which the other processes may report what happened to them."""


async def start_together(
    links: Sequence[ProcessLink[Any, Any, Any]],
    receive: Callable[[int, Any], None],
    named: Callable[[int, str], str],
) -> list[Any]:
    """Start `links` and return what they describe; `receive` gets their messages with the index of the link.

    If one fails, all are killed a moment later: one that waits for another may fail before the cause is known.

    Raises:
        ModelLoadFailed: with the reasons of all links that failed within this moment, as `named` words them.
    """
    loading = [
        asyncio.ensure_future(link.start(partial(receive, index)))
        for index, link in enumerate(links)
    ]
    try:
        await asyncio.wait(loading, return_when=asyncio.FIRST_EXCEPTION)
        if any(load.done() and load.exception() for load in loading):
            await asyncio.sleep(LAST_WORDS_SECONDS)
            raise _failure([load.exception() if load.done() else None for load in loading], named)
        return [load.result() for load in loading]
    except BaseException:
        for link in links:
            link.kill()
        for load in loading:
            load.cancel()
        await asyncio.gather(*loading, return_exceptions=True)
        raise


def _failure(
    errors: Sequence[BaseException | None], named: Callable[[int, str], str]
) -> ModelLoadFailed:
    """Return the errors of the links as one; each text once, with the first link that has it."""
    first_with: dict[str, int] = {}
    for index, error in enumerate(errors):
        if error is not None:
            text = str(error) if isinstance(error, ModelLoadFailed) else describe(error)
            first_with.setdefault(text, index)
    failure = ModelLoadFailed("; ".join(named(index, text) for text, index in first_with.items()))
    failure.__cause__ = next(filter(None, errors))
    return failure
