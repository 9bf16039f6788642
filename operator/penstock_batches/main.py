"""Entry point of the batch service; at SIGTERM it finishes the lines in flight and ends."""

import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack

from penstock_api.log_format import log_to_stderr
from penstock_api.stopping import on_stop
from penstock_batches.config import BatchSettings
from penstock_batches.errors import BatchesConfigError
from penstock_batches.http.connections import raise_limit
from penstock_batches.service import serving, stopped


def main() -> None:
    """Run, and exit with an error on wrong settings."""
    try:
        settings = BatchSettings.from_env(os.environ)
        raise_limit()
        log_to_stderr(settings.log_format, settings.log_level, _fields)
        asyncio.run(_run(settings))
    except BatchesConfigError as error:
        sys.exit(f"penstock-batches: {error}")


async def _run(settings: BatchSettings) -> None:
    stopping = asyncio.Event()
    on_stop(asyncio.get_running_loop().add_signal_handler, stopping.set)
    async with AsyncExitStack() as stack:
        opening = asyncio.create_task(stack.enter_async_context(serving(settings)))
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait((opening, stop), return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():  # the store is not open yet
            await stopped([opening])
        if not opening.cancelled():
            await opening
            await stop


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: vars(record)[name] for name in ("port", "status_port") if name in vars(record)}
