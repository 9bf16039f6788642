"""Entry point of the batch service; at SIGTERM it finishes the lines in flight and ends."""

import asyncio
import logging
import os
import sys

from penstock_api.log_format import log_to_stderr
from penstock_api.stopping import on_stop
from penstock_batches.config import BatchSettings
from penstock_batches.errors import BatchesConfigError
from penstock_batches.http.connections import raise_limit
from penstock_batches.service import serving


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
    async with serving(settings):
        await stopping.wait()


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: vars(record)[name] for name in ("port", "status_port") if name in vars(record)}
