"""`start_together`: several engine processes that load one model, and succeed or fail as one."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock_runtime.engine.link.process.link import ProcessLink
from penstock_runtime.engine.model import ModelLoadFailed


async def start_together(
    links: Sequence[ProcessLink[Any, Any, Any]],
    receive: Callable[[int, Any], None],
    named: Callable[[int, str], str],
) -> list[Any]:
    """Start `links` and return what they describe; `receive` gets their messages with the index of the link.

    If one fails, all are killed.

    Raises:
        ModelLoadFailed: with the reason of the first link that failed, as `named` words it.
    """
    loading = [
        asyncio.ensure_future(link.start(partial(receive, index)))
        for index, link in enumerate(links)
    ]
    try:
        await asyncio.wait(loading, return_when=asyncio.FIRST_EXCEPTION)
        for index, load in enumerate(loading):
            error = load.exception() if load.done() else None
            if isinstance(error, ModelLoadFailed):
                raise ModelLoadFailed(named(index, str(error))) from error
        return [load.result() for load in loading]
    except BaseException:
        for link in links:
            link.kill()
        for load in loading:
            load.cancel()
        await asyncio.gather(*loading, return_exceptions=True)
        raise
